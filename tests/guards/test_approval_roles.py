"""Who may say yes: requests that take a role, and who is turned away."""

from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, Approval, ApprovalRequest, Approve, Edit, Reject, Respond, RunResult, Team, handoff, tool
from changeover.errors import ApprovalError, MisconfiguredError
from changeover.facts import RequestKind
from changeover.guards import Rule
from changeover.guards.approval import Decision, approval_faults, unauthorised
from changeover.relay.events import ApprovalDecided
from changeover.testing import ManualClock, ScriptedModel, calls, hands_off, says
from tests.stories.stage import events

MANAGERS = Approval(roles=("manager", "owner"))


@tool(approval=MANAGERS)
def pay() -> str:
    """Pay."""
    return "paid"


def by_tool(**options: Any) -> Team:
    model = ScriptedModel({"solo": [calls(("pay", {})), says("Done.")]})
    return Team([Agent("solo", tools=[pay])], model=model, **options)


def by_handoff(**options: Any) -> Team:
    model = ScriptedModel({"solo": [hands_off("billing", "x"), says("Done.")], "billing": [says("Done.")]})
    members = [Agent("solo", handoffs=[handoff("billing", approval=MANAGERS)]), Agent("billing")]
    return Team(members, model=model, **options)


def by_rule(**options: Any) -> Team:
    model = ScriptedModel({"solo": [says("Done.")], "billing": [says("Done.")]})
    rules = [Rule("always", if_=lambda ctx: True, goto="billing", approval=MANAGERS)]
    return Team([Agent("solo"), Agent("billing")], model=model, rules=rules, **options)


async def waiting(team: Team) -> ApprovalRequest:
    result = await team.run("Pay!", conversation="c")
    [request] = result.requests
    assert request.roles == ("manager", "owner")
    return request


TEAMS = pytest.mark.parametrize("made", [by_tool, by_handoff, by_rule])


@TEAMS
@pytest.mark.parametrize("decision", [Approve(), Reject("no"), Respond("Here."), Edit(receiver="solo")])
async def test_a_decision_without_the_role_is_refused_and_not_recorded(made: Any, decision: Decision):
    async with made() as team:
        request, before = await waiting(team), await team.history("c")
        for roles, has in (((), "ann has no role"), (["clerk", "intern"], "ann has only clerk, intern")):
            with pytest.raises(ApprovalError, match=f"one of the roles manager, owner, and {has}"):
                await team.decide(request, decision, by="ann", roles=roles)
        assert await team.history("c") == before
        assert await team.approvals() == [request]


@TEAMS
async def test_a_decision_with_the_role_is_recorded_with_the_role(made: Any):
    async with made() as team:
        request = await waiting(team)
        await team.decide(request.id, Approve(), by="ann", roles=["owner", "clerk"])
        assert (await team.resume("c")).output == "Done."
        [decided] = await events(team, ApprovalDecided, "c")
        assert (decided.by, decided.roles) == ("ann", ("owner",))
        await team.decide(request.id, Approve(), by="ann", roles=["owner"])  # once more is no mistake
        with pytest.raises(ApprovalError, match="approved already, by ann"):
            await team.decide(request.id, Reject(), by="bob", roles=["manager"])


@TEAMS
async def test_a_program_that_decides_in_process_has_every_role(made: Any):
    async with made(ask=lambda request: Approve()) as team:
        assert (await team.run("Pay!", conversation="c")).output == "Done."


async def test_a_request_with_roles_expires_like_any_other():
    clock = ManualClock()
    soon = tool(approval=Approval(expires=60, roles=["manager"]))(pay.function)
    model = ScriptedModel({"solo": [calls(("pay", {})), says("Done.")]})
    async with Team([Agent("solo", tools=[soon])], model=model, clock=clock) as team:
        assert (await team.run("Pay!", conversation="c")).status == "waiting"
        await clock.advance(60)
        result: RunResult = await team.resume("c")
        assert (result.status, result.output) == ("completed", "Done.")
        [decided] = await events(team, ApprovalDecided, "c")
        assert (decided.expired, decided.roles) == (True, ())


@pytest.mark.parametrize("roles", ["manager", ["manager", ""], [7], None])
async def test_roles_are_a_list_of_names(roles: Any):
    assert approval_faults(Approval(roles=roles)) == [
        f"has an approval with roles={roles!r}; give a list of names, such as ['manager']"
    ]
    async with by_tool() as team:
        request = await waiting(team)
        with pytest.raises(ApprovalError, match="is not a list of names"):
            await team.decide(request, Approve(), roles=roles)


@pytest.mark.parametrize("decision", [Reject(5), Respond(None), Edit(receiver=7), Edit(arguments=[1])])  # type: ignore[arg-type]
async def test_a_decision_that_could_not_be_stored_is_refused_and_the_request_stays_pending(decision: Any):
    async with by_tool() as team:
        request = await waiting(team)
        with pytest.raises(ApprovalError, match=rf"^{type(decision).__name__}\(\w+=…\) must be a (str|dict), not "):
            await team.decide(request, decision, roles=["manager"])
        with pytest.raises(MisconfiguredError, match="by must be a str, not int"):
            await team.decide(request, Approve(), by=5, roles=["manager"])  # type: ignore[arg-type]
        assert await team.approvals() == [request]


@pytest.mark.parametrize(
    ("asked", "has", "why"),
    [
        ((), (), ""),
        ((), ("clerk",), ""),
        (("manager",), ("manager",), ""),
        (("manager", "owner"), ("clerk", "owner"), ""),
        (("manager",), (), "it takes one of the roles manager, and ann has no role"),
        (("manager", "owner"), ("clerk",), "it takes one of the roles manager, owner, and ann has only clerk"),
        (("manager",), ("Manager",), "it takes one of the roles manager, and ann has only Manager"),
    ],
)
def test_one_role_of_those_asked_for_is_enough(asked: tuple[str, ...], has: Sequence[str], why: str):
    request = ApprovalRequest(conversation="c", call="3.0", agent="a", tool="pay", arguments={}, roles=asked)
    assert unauthorised(request, "ann", has) == why


KINDS: list[tuple[RequestKind, str]] = [("approval", "b79ee93f24f7217b"), ("task", "8be9407c678fa7ad")]


@pytest.mark.parametrize(("kind", "digest"), KINDS)
def test_the_id_of_a_request_without_roles_stays_the_same(kind: RequestKind, digest: str):
    what: dict[str, Any] = {"conversation": "c", "call": "3.0", "agent": "a", "tool": "pay", "arguments": {"n": 1}}
    request = ApprovalRequest(**what, kind=kind)
    assert request.digest == digest
    others = {ApprovalRequest(**what, kind=kind, roles=roles).digest for roles in [("manager",), ("owner",)]}
    assert len({request.digest, *others}) == 3
