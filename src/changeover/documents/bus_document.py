"""Subscriptions and schedules in documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from changeover.bus.schedule import Emit, Missed, Overlap, Schedule, schedule_faults
from changeover.bus.subscription import Specialist, Subscription, Webhook, subscription_faults
from changeover.documents.record import Field, Record
from changeover.documents.shape import (
    COUNT,
    FLAG,
    FUNCTION,
    JSON,
    SECONDS,
    TEXT,
    Inexpressible,
    Scope,
    Shape,
    choice,
    closed,
    list_of,
)
from changeover.documents.yaml_value import YamlValue
from changeover.handoffs.package import PRIORITIES
from changeover.workflows.workflow import Workflow

SPECIALIST_RECORD = Record(
    "a specialist with 'specialist'",
    {
        "specialist": Field(TEXT, "The capability that it must have.", "capability"),
        "task": Field(TEXT, "What it is to do; braces hold JMESPath over the event."),
    },
    ("specialist",),
)
WEBHOOK_RECORD = Record(
    "a webhook with 'webhook'",
    {
        "webhook": Field(TEXT, "The address.", "url"),
        "secret": Field(TEXT, "The secret of the signature, as a reference: ${NAME}."),
        "allow_private": Field(FLAG, "True if the address may be one that is not of the public Internet."),
        "timeout": Field(SECONDS, "Seconds for an answer."),
    },
    ("webhook",),
)
EMIT_RECORD = Record(
    "an event with 'event'",
    {
        "event": Field(TEXT, "The type of the event that is published.", "type"),
        "data": Field(JSON, "Its data."),
        "source": Field(TEXT, "Its source."),
    },
    ("event",),
)
KINDS: dict[str, tuple[type, Shape]] = {
    "specialist": (Specialist, SPECIALIST_RECORD.shape(Specialist)),
    "webhook": (Webhook, WEBHOOK_RECORD.shape(Webhook)),
    "event": (Emit, EMIT_RECORD.shape(Emit)),
    "function": (object, FUNCTION),
}
"""The targets beside agents and workflows, by the key that identifies them."""


def _read_target(value: YamlValue, scope: Scope) -> Any:
    if not value.is_mapping():
        return value.text()
    for key, (_, shape) in KINDS.items():
        if value.peek(key) is not None:
            return (
                value.mapping("a function", {key: lambda path: FUNCTION.read(path, scope)}, (key,))[key]
                if key == "function"
                else shape.read(value, scope)
            )
    raise value.error(f"expected the id of an agent or a workflow, a URL, or a mapping with one of {', '.join(KINDS)}")


def _write_target(target: Any, scope: Scope) -> Any:
    if isinstance(target, str):
        return target
    if isinstance(target, Workflow):
        return target.id
    for kind, shape in KINDS.values():
        if kind is not object and isinstance(target, kind):
            return shape.write(target, scope)
    return {"function": FUNCTION.write(target, scope)}


TARGET = Shape(
    _read_target,
    _write_target,
    {
        "anyOf": [
            {"type": "string"},
            *(shape.schema for kind, shape in KINDS.values() if kind is not object),
            closed({"function": FUNCTION.schema}, ("function",)),
        ]
    },
)


def _read_priority(value: YamlValue, scope: Scope) -> str | int:
    return value.integer() if isinstance(value.raw(), int) else value.one_of(*PRIORITIES)


def _write_priority(value: Any, scope: Scope) -> str | int:
    if isinstance(value, str | int):
        return value
    raise Inexpressible(f"a document cannot hold a value of type {type(value).__name__} here")


PRIORITY = Shape(_read_priority, _write_priority, {"anyOf": [{"enum": list(PRIORITIES)}, {"type": "integer"}]})
ABOUT_TARGET = "The id of an agent or a workflow, a URL, or a mapping with specialist, webhook or function."
SUBSCRIPTION_RECORD = Record(
    "a subscription with 'types' and 'to'",
    {
        "types": Field(TEXT, "The type of the events; * stands for a word, at the end for one or more."),
        "to": Field(TARGET, ABOUT_TARGET),
        "where": Field(TEXT, "A JMESPath expression over the event that must be true."),
        "priority": Field(PRIORITY, "Of the handoff that it starts."),
        "task": Field(TEXT, "What the agent is to do; braces hold JMESPath over the event."),
        "name": Field(TEXT, "Its name, unique in the team."),
        "tries": Field(COUNT, "Attempts until an event becomes a dead letter."),
        "backoff": Field(SECONDS, "Seconds before the second attempt; they double with each further one."),
        "timeout": Field(SECONDS, "Seconds that a function has."),
        "concurrency": Field(COUNT, "How many events a process handles at once."),
    },
    ("types", "to"),
)
SCHEDULE_RECORD = Record(
    "a schedule with 'name', 'cron' and 'start'",
    {
        "name": Field(TEXT, "Its name, unique in the team."),
        "cron": Field(TEXT, "Minute, hour, day of the month, month, day of the week."),
        "start": Field(TARGET, f"{ABOUT_TARGET} Or one with event, which is published."),
        "timezone": Field(TEXT, "The time zone of the hours, such as Europe/Berlin."),
        "missed": Field(choice(*get_args(Missed)), "What happens if no process was there in time."),
        "overlap": Field(choice(*get_args(Overlap)), "What happens if the work of the last start goes on."),
        "task": Field(TEXT, "What the agent is to do."),
        "data": Field(JSON, "The inputs of the workflow."),
        "priority": Field(PRIORITY, "Of the handoff that it starts."),
    },
    ("name", "cron", "start"),
)


def _subscription_faults(declared: Subscription, before: Sequence[Subscription], scope: Scope) -> list[str]:
    namesakes = [each for each in before if each.id == declared.id]
    return subscription_faults([*namesakes, declared], [*scope.ids, *scope.workflows])


def _schedule_faults(declared: Schedule, before: Sequence[Schedule], scope: Scope) -> list[str]:
    namesakes = [each for each in before if each.name == declared.name]
    return schedule_faults([*namesakes, declared], [*scope.ids, *scope.workflows])


SUBSCRIPTIONS = list_of(SUBSCRIPTION_RECORD.shape(Subscription), "a list of subscriptions", _subscription_faults)
SCHEDULES = list_of(SCHEDULE_RECORD.shape(Schedule), "a list of schedules", _schedule_faults)
