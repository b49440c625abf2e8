"""Stories of decisions that hold only for the request that was shown: its receiver, its tool, its arguments."""

from contextlib import suppress
from typing import Any

from changeover import Agent, Approve, Edit, Team, delegate, handoff, tool
from changeover.errors import ApprovalError
from changeover.testing import ScriptedModel, calls, says
from tests.public_api import offered
from tests.stories.stage import CONVERSATION, Stage
from tests.stories.wanted import wanted

SCRIPT = {"triage": [calls(("pass_on", {})), says("Done.")], "b": [says("b did it.")], "evil": [says("evil did it.")]}
ASKS = {"triage": [calls(("pass_on", {"task": "count"})), says("Done.")], "b": [says("b")], "evil": [says("evil")]}


def leading_to(stage: Stage, way: Any, script: dict[str, Any] = SCRIPT) -> Team:
    """A team whose tool `pass_on` leads this way; a later one is the same team after a redeploy."""
    own: dict[str, Any] = {"tools": [way], "handoffs": ()} if callable(way) else {"handoffs": [way]}
    members = [Agent("triage", **own), Agent("b", handoffs=()), Agent("evil", handoffs=())]
    return stage.team(members, ScriptedModel(script))


async def shown(team: Team) -> list[tuple[str, str]]:
    """Who would be handed what, of all that awaits a decision."""
    return [(each.tool, each.receiver) for each in await team.approvals(CONVERSATION)]


async def redeployed(stage: Stage, before: Any, after: Any, decision: Any, script: dict[str, Any] = SCRIPT) -> None:
    """A request is shown by one team, and decided in another in which the same tool leads elsewhere."""
    first = leading_to(stage, before, script)
    await stage.say(first, "go")
    requests = [each for each in await first.approvals(CONVERSATION) if each.receiver != "evil"]
    assert requests or stage.lives > 1
    second = leading_to(stage, after, script)
    for request in requests:
        with suppress(ApprovalError):  # it may say at once that something else is awaited now
            await second.decide(request, decision, by="ana")
    await second.resume(CONVERSATION)
    assert ("triage", "evil") not in offered(await second.history(CONVERSATION))
    assert await shown(second) == [("pass_on", "evil")]


@wanted("an approved handoff goes wherever the tool leads after a redeploy")
async def an_approval_of_one_receiver_is_none_of_another(stage: Stage) -> None:
    before, after = (handoff(id, name="pass_on", approval=True) for id in ("b", "evil"))
    await redeployed(stage, before, after, Approve())


@wanted("an edited handoff goes wherever the tool leads after a redeploy")
async def a_decision_to_edit_binds_the_receiver_that_was_shown_as_well(stage: Stage) -> None:
    before, after = (handoff(id, name="pass_on", approval=True) for id in ("b", "evil"))
    await redeployed(stage, before, after, Edit(arguments={}))


@wanted("an approved delegate is asked wherever the tool leads after a redeploy")
async def an_approval_of_one_delegate_is_none_of_another(stage: Stage) -> None:
    before, after = (delegate(id, name="pass_on", approval=True) for id in ("b", "evil"))
    await redeployed(stage, before, after, Approve(), ASKS)


@wanted("an approved tool is a handoff after a redeploy")
async def an_approval_of_a_tool_is_none_of_a_handoff(stage: Stage) -> None:
    @tool(approval=True)
    def pass_on() -> str:
        """Pass it on."""
        return "passed on"

    await redeployed(stage, pass_on, handoff("evil", name="pass_on", approval=True), Approve())
