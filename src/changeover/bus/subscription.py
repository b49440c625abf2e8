"""Subscription: which events go to which target; Specialist and Webhook are two kinds of target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf, isfinite
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from changeover.bus.delivery import SHORTEST
from changeover.bus.event import BusEvent, holds, matches, path_faults, pattern_faults, template_faults
from changeover.handoffs.callback import arity_faults
from changeover.handoffs.package import PRIORITIES
from changeover.tools.secret import reference_faults, url_faults
from changeover.workflows.workflow import Workflow

TRIES = 5
BACKOFF = 1.0
SLOWEST = 3600.0
"""The longest pause between two attempts, in seconds."""


@dataclass(frozen=True)
class Specialist:
    """A task for a member that has a `capability`; the router finds it. `task` is what it is to do: JMESPath
    expressions in braces are filled in from the event, such as {data.summary}."""

    capability: str
    _: KW_ONLY
    task: str = ""


@dataclass(frozen=True)
class Webhook:
    """An address, `url`, that gets events by HTTP POST as CloudEvents, signed if there is a `secret`: a reference to an
    environment variable, such as "${WEBHOOK_SECRET}".

    An answer with a status from 200 to 299 means that the event was handled. `allow_private` lets it be an address
    that is not of the public Internet. `timeout` is in seconds.
    """

    url: str
    _: KW_ONLY
    secret: str = ""
    allow_private: bool = False
    timeout: float = 10.0


Handler: TypeAlias = Callable[[BusEvent], Any]
Target: TypeAlias = str | Specialist | Workflow | Webhook | Handler


@dataclass(frozen=True)
class Subscription:
    """Hands events of some types to a target.

    - `types`: the type of an event; * stands for one word, at the end for one or more: "security.*".
    - `to`: the id of an agent, which gets a handoff; Specialist(…); a workflow or its id, whose inputs are the data of
      the event; Webhook(…) or a URL; or a function of the event.
    - `where`: a JMESPath expression over the event that must be true, such as "data.severity >= `7`".
    - `priority`: of the handoff: "low", "normal", "high", "urgent" or a whole number.
    - `task`: what the agent is to do; JMESPath expressions in braces are filled in, such as {data.summary}. By default
      it is told the type and the data of the event.
    - `name`: tells it from other subscriptions of the team (default: the types and the receiver).
    - `tries`: attempts until an event becomes a dead letter. The pause between two attempts begins with `backoff`
      seconds and doubles. A function has `timeout` seconds. `concurrency`: how many events one process handles at once.
    """

    types: str
    _: KW_ONLY
    to: Any
    where: str = ""
    priority: str | int = "normal"
    task: str = ""
    name: str = ""
    tries: int = TRIES
    backoff: float = BACKOFF
    timeout: float = 60.0
    concurrency: int = 8

    @property
    def id(self) -> str:
        """The name under which its deliveries are stored."""
        return self.name or f"{self.types} to {title_of(self.to)}"

    def names(self, type: str) -> bool:
        """True if it may get events of this type."""
        return matches(self.types, type)

    def wants(self, event: BusEvent) -> bool:
        """True if it gets this event."""
        return self.names(event.type) and holds(self.where, event)

    def pause(self, attempt: int) -> float | None:
        """Seconds until the next attempt after this one failed, counted from 1; None if there is none."""
        return None if attempt >= self.tries else min(SLOWEST, self.backoff * 2.0 ** min(attempt - 1, 40))


def title_of(target: object) -> str:
    """The name of a target."""
    match target:
        case str():
            return target
        case Specialist():
            return f"a specialist in {target.capability}"
        case Webhook():
            return target.url
        case _:
            named = getattr(target, "id", None) or getattr(target, "__qualname__", None)
            return str(named or type(target).__name__).rpartition(".<locals>.")[2]


def is_url(target: object) -> bool:
    """True if a text is the address of a webhook."""
    return isinstance(target, str) and target.startswith(("http://", "https://"))


def subscription_faults(declared: object, receivers: Collection[str] | None) -> list[str]:
    """The faults of the subscriptions of a team; `receivers` are the ids of its agents and workflows, None if a store
    may declare further ones."""
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        return [f"subscriptions={declared!r} is not a list of Subscription(…)"]
    found = [f"{each!r} is not a Subscription(…)" for each in declared if not isinstance(each, Subscription)]
    sound = [each for each in declared if isinstance(each, Subscription)]
    for each in sound:
        found += [f"subscription {each.id!r} {fault}" for fault in _faults(each, receivers)]
    names = [each.id for each in sound]
    twice = {name for name in names if names.count(name) > 1}
    return found + [f"two subscriptions are called {name!r}; give one of them another name=" for name in sorted(twice)]


def _faults(declared: Subscription, receivers: Collection[str] | None) -> Iterable[str]:
    yield from pattern_faults(declared.types)
    yield from path_faults("where", declared.where) if declared.where else ()
    yield from template_faults(declared.task)
    yield from target_faults("to", declared.to, receivers)
    yield from priority_faults(declared.priority)
    if not isinstance(declared.name, str) or len(declared.id) > 200 or not declared.id.isprintable():
        yield f"has name={declared.name!r}; give a printable str of at most 200 characters"
    for name, count in (("tries", declared.tries), ("concurrency", declared.concurrency)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            yield f"has {name}={count!r}; give a whole number above 0"
    yield from seconds_faults(backoff=declared.backoff, timeout=declared.timeout)


def priority_faults(priority: object) -> list[str]:
    if priority in PRIORITIES or (isinstance(priority, int) and not isinstance(priority, bool)):
        return []
    return [f"has priority={priority!r}; give a whole number, or one of {', '.join(PRIORITIES)}"]


def seconds_faults(**given: object) -> list[str]:
    return [
        f"has {name}={value!r}; give a number of seconds above 0"
        for name, value in given.items()
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value) or value <= 0
    ]


def kept_faults(seconds: object) -> list[str]:
    """Faults of the time for which events are kept."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and SHORTEST <= seconds < inf:
        return []
    return [f"the team has keep_events={seconds!r}; give a number of seconds, {SHORTEST:g} or more"]


def target_faults(name: str, target: object, receivers: Collection[str] | None) -> list[str]:
    """Faults of the target of a subscription, or of a schedule."""
    match target:
        case Specialist(capability, task=task):
            faults = [] if isinstance(capability, str) and capability.strip() else ["needs the name of a capability"]
            return [f"has a Specialist that {fault}" for fault in (*faults, *template_faults(task))]
        case Webhook():
            return [f"has a webhook that {fault}" for fault in _webhook_faults(target)]
        case str() if is_url(target):
            return [f"has a webhook that {fault}" for fault in _webhook_faults(Webhook(target))]
        case str():
            if receivers is None or target in receivers:
                return []
            return [f"has {name}={target!r}, which is no agent or workflow of this team: {', '.join(receivers)}"]
        case Workflow(id=id):
            return (
                []
                if receivers is None or id in receivers
                else [f"has {name}={id!r}, which is no workflow of this team"]
            )
        case _ if callable(target):
            return arity_faults(name, target, "event")
        case _:
            possible = "the id of an agent or a workflow, Specialist(…), Webhook(…), a URL or a function"
            return [f"has {name}={target!r}; give {possible}"]


def _webhook_faults(webhook: Webhook) -> Iterable[str]:
    try:
        parts = urlsplit(webhook.url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except (ValueError, TypeError, AttributeError):
        usable = False
    if not usable:
        yield f"has the address {webhook.url!r}; give one with http or https"
    else:
        yield from url_faults("address", webhook.url)
    yield from seconds_faults(timeout=webhook.timeout)
    if webhook.secret != "":
        yield from reference_faults("secret", webhook.secret)
