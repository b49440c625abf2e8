"""Whole conversations that leave rows in every table."""

from msgspec.structs import replace

from changeover.facts import Share
from changeover.guards.approval import Approve
from changeover.relay.events import (
    CallRefused,
    Entry,
    HandoffOffered,
    LimitReached,
    RunCompleted,
    RunStarted,
    StepSkipped,
    UserSpoke,
    VariantChosen,
    WorkflowBegan,
)
from changeover.relay.ports.log import Head, Log, Reserve, Spending
from changeover.workflows.plan import Plan, StepPlan
from tests.stores.entries import DONE, WORKING, answer, asked, decided, delegate, handing_over, opening

SPENT = (Spending(1, "front", 2.0, Share(1, 1)),)


async def lived(log: Log, id: str) -> None:
    """A whole conversation, which leaves something in every table, in two conversations below it too."""
    await log.append(opening(id), WORKING)
    await log.append(asked(3, "2.0", id, id), WORKING)
    [request] = [each for each in await log.approvals() if each.conversation == id]
    await log.append(decided(4, request, Approve()), WORKING)
    await log.append(handing_over(5, id), WORKING)
    for below in (f"{id}/5.0", f"{id}/5.0/3.0"):
        await log.append(delegate(below, id), WORKING)
        await log.append(offering(3, below, id), WORKING)
        await log.append(asked(5, "4.0", below, id), WORKING)
        await log.append(trying(6, below, id), Head("cancelled", "billing", False, spent=SPENT))
    await log.append(ending(8, 7, id), replace(DONE, spent=SPENT), Reserve(1, 1, 100, 100))
    for name in ("content", "polite"):
        await log.trials.measure(id, name, 4.5, 5.0)
    await log.contexts.put(id, "x", f"what was said in {id}", 50.0)
    await log.contexts.put(id, "y", f"what was said in {id}")


def ending(position: int, task: int, conversation: str) -> Entry:
    """The second agent answers, and then a workflow runs whose steps are skipped."""
    answered = answer(position, task, conversation)
    spoke = position + len(answered.events)
    plan = Plan("flow", (StepPlan("left", "front"), StepPlan("right", "front")))
    skipped = (StepSkipped(spoke + 1, step.id, "not today") for step in plan.steps)
    began = (UserSpoke("go", agent="flow"), RunStarted(spoke, "flow"), WorkflowBegan(spoke + 1, plan))
    return replace(answered, events=(*answered.events, *began, *skipped, RunCompleted(spoke)))


def trying(position: int, conversation: str, root: str) -> Entry:
    """The tree takes part in one more experiment, and reaches a limit."""
    chosen = VariantChosen(f"words-{conversation.count('/')}", "plain", 2, "billing")
    return Entry(conversation, root, position, f"said@{position}", 2.0, (chosen, LimitReached("max_turns", 3)))


def offering(position: int, conversation: str, root: str) -> Entry:
    """Somebody must not be offered something; somebody else is, and does not answer."""
    refused = CallRefused("2.0", 2, "refused: deadlock: round and round", "guard", "front")
    events = (refused, HandoffOffered(f"{position}.0", 2, "billing", "nobody", "yours"))
    return Entry(conversation, root, position, "2", 4.0, events)
