"""Subscriptions and schedules as data: in YAML, in an export, and as versioned declarations in a store."""

import asyncio

import pytest

from changeover import Agent, Team
from changeover.bus import BusEvent, Emit, Schedule, Specialist, Subscription, Webhook
from changeover.documents.team_document import read_team
from changeover.documents.team_export import export_team
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import DocumentError
from changeover.errors import MisconfiguredError
from changeover.testing import ScriptedModel, says
from tests.public_api import soon

TEAM = """
agents:
  triage: {}
  security: {description: Investigates., capabilities: [security]}
subscriptions:
  - types: security.*
    to: {specialist: security, task: "Investigate: {data.summary}"}
    where: data.severity >= `7`
    priority: urgent
  - {types: order.*, to: triage, task: "Look at {data.order}", name: orders, tries: 3, backoff: 2.5}
  - types: "*"
    to: {webhook: "https://example.org/hook", secret: "${HOOK}"}
schedules:
  - {name: weekly, cron: 0 7 * * 1, timezone: Europe/Berlin, start: triage, task: Report., missed: skip}
  - {name: ticks, cron: "* * * * *", start: {event: tick, data: {a: 1}}, overlap: queue}
"""
SUBSCRIPTIONS = (
    Subscription(
        "security.*",
        to=Specialist("security", task="Investigate: {data.summary}"),
        where="data.severity >= `7`",
        priority="urgent",
    ),
    Subscription("order.*", to="triage", task="Look at {data.order}", name="orders", tries=3, backoff=2.5),
    Subscription("*", to=Webhook("https://example.org/hook", secret="${HOOK}")),
)
SCHEDULES = (
    Schedule("weekly", cron="0 7 * * 1", timezone="Europe/Berlin", start="triage", task="Report.", missed="skip"),
    Schedule("ticks", cron="* * * * *", start=Emit("tick", {"a": 1}), overlap="queue"),
)


def test_a_document_declares_subscriptions_and_schedules():
    document = read_team(TEAM, "team.yaml")
    assert document.options["subscriptions"] == SUBSCRIPTIONS
    assert document.options["schedules"] == SCHEDULES
    Team(document.members, model=ScriptedModel({}), **document.options)


def test_what_code_declares_is_exported_and_read_again():
    options = {"subscriptions": SUBSCRIPTIONS, "schedules": SCHEDULES}
    export = export_team([Agent("triage")], options, ToolModules(()))
    assert export.left_out == ()
    from changeover.documents.team_document import team_of

    again = team_of(export.document, "the export")
    assert {name: again.options[name] for name in options} == options


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("- {types: a}", "to"),
        (
            "- {types: a, to: {nothing: 1}}",
            "expected the id of an agent or a workflow, a URL, or a mapping with one of",
        ),
        ("- {types: a, to: triage, priority: soon}", "soon"),
        ("- {types: a, to: triage, colour: red}", "colour"),
        ("- {types: a b, to: triage}", "has the type 'a b'"),
        ("- {types: a, to: nobody}", "has to='nobody', which is no agent or workflow of this team: triage"),
        ("- {types: a, to: triage, where: 'a['}", "which is not a JMESPath expression"),
        ("- {types: a, to: {webhook: 'https://x.org', secret: whsec_5}}", "has a webhook that has a literal secret"),
        ("- {types: a, to: 'https://x.org?key=sk-abcdefghijklmnop'}", "has what looks like a key in its address"),
        ("- {types: a, to: 'https://ana:hidden@x.org'}", "has a password in its address"),
    ],
)
def test_a_fault_in_a_document_has_its_place(line: str, fault: str):
    with pytest.raises(DocumentError) as refused:
        read_team(f"agents: {{triage: {{}}}}\nsubscriptions:\n  {line}\n", "team.yaml")
    assert fault in str(refused.value)
    assert "team.yaml, line 3" in str(refused.value)


def test_faults_of_schedules_and_rules_have_their_places_and_are_reported_together():
    text = """\
agents: {triage: {}}
workflows: {flow: {steps: [{id: a, agent: triage}]}}
model_retries: -1
briefing: "{nothing}"
rules:
  - {if: {a: 1}, goto: triage, deny: No.}
  - {if: {a: 1}, name: twice, deny: No.}
  - {if: {a: 1}, name: twice, deny: No.}
schedules:
  - {name: s, cron: "* * *", start: flow}
  - {name: t, cron: "* * * * *", start: nobody}
  - {name: u, cron: "* * * * *", start: flow, timezone: Mars}
  - {name: v, cron: "* * * * *", start: flow}
  - {name: v, cron: "* * * * *", start: triage}
"""
    with pytest.raises(DocumentError) as refused:
        read_team(text, "team.yaml")
    lines = [int(fault.partition("line ")[2].partition(",")[0]) for fault in refused.value.faults]
    assert lines == [3, 4, 6, 8, 10, 11, 12, 14]


async def test_a_subscription_in_the_store_holds_from_the_next_event_on(any_store: str | None):
    got: list[BusEvent] = []
    model = ScriptedModel(lambda agent, messages, tools: says(f"{agent} did it"))
    own = [Subscription("order.*", to=got.append, name="own")]
    async with Team([Agent("triage")], model=model, store=any_store, subscriptions=own) as team:
        before = await team.bus.publish("order.paid")
        row = await team.declarations.put("team", team.name, {"subscriptions": [{"types": "order.*", "to": "triage"}]})
        assert row.version == 1
        after = await team.bus.publish("order.paid")

        async def over() -> bool:
            return not await team.bus.backlog()

        assert await soon(over, 20.0)
        assert [len((await team.bus.event(id)).deliveries) for id in (before, after)] == [1, 2]  # type: ignore[union-attr]
        with pytest.raises(MisconfiguredError):
            await team.declarations.put("team", team.name, {"subscriptions": [{"types": "a b", "to": "triage"}]})


async def test_a_team_without_subscriptions_begins_to_hand_out_when_the_store_declares_one(any_store: str | None):
    model = ScriptedModel(lambda agent, messages, tools: says(f"{agent} did it"))
    async with Team([Agent("triage")], model=model, store=any_store) as team:
        await team.declarations.put("team", team.name, {"subscriptions": [{"types": "order.*", "to": "triage"}]})
        id = await team.bus.publish("order.paid")

        async def over() -> bool:
            await asyncio.sleep(0)
            return not await team.bus.backlog()

        assert await soon(over, 20.0)
        assert [each.state for each in (await team.bus.event(id)).deliveries] == ["done"]  # type: ignore[union-attr]


async def test_a_subscription_in_the_store_gets_what_happens_inside_though_code_declares_none(any_store: str | None):
    model = ScriptedModel(lambda agent, messages, tools: says(f"{agent} did it"))
    members = [Agent("triage"), Agent("clerk", description="Writes.")]
    told = {"types": "changeover.run.completed", "to": "clerk", "task": "Note: {data.output}"}
    async with Team(members, model=model, store=any_store) as team:
        await team.declarations.put("team", team.name, {"subscriptions": [told]})
        await team.run("hello", conversation="c1")
        [event] = await team.bus.events()

        async def started() -> bool:
            return bool((await team.bus.event(event.id)).deliveries[0].started)  # type: ignore[union-attr]

        assert await soon(started, 20.0)
        assert event.data == {"conversation": "c1", "agent": "triage", "run": "c1@1", "output": "triage did it"}
        result = await team.resume((await team.bus.event(event.id)).deliveries[0].started)  # type: ignore[union-attr]
        assert result.handoff_chain[0].message == "Note: triage did it"
