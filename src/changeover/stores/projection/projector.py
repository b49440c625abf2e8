"""The projection table: for each event, the function that changes rows; runs, turns and tools are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changeover.facts import State as Standing
from changeover.ids import call_id, call_of, handoff_id, run_id, split_child, task_id
from changeover.relay.events import (
    AlternativeRefused,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWaived,
    CallRefused,
    CancelRequested,
    CircuitFound,
    ContextPacked,
    Entry,
    Event,
    FellBack,
    FunctionFailed,
    FunctionReturned,
    Given,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    LimitReached,
    ModelFailed,
    ModelReplied,
    ReceiverChosen,
    RepairAsked,
    ResultJudged,
    RollbackDone,
    RollbackFailed,
    RollbackRequested,
    RuleFailed,
    RuleFired,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    RunStopped,
    Started,
    TicketLapsed,
    TicketTaken,
    TierChosen,
    ToolFinished,
    ToolStarted,
    Unreadable,
    UserSpoke,
    VariantChosen,
)
from changeover.stores.codec import Events
from changeover.stores.projection import handoffs, interventions
from changeover.stores.projection.rows import Leg, Rows, as_json
from changeover.stores.projection.sheet import Past, Sheet, merged
from changeover.stores.projection.texts import last_words, result_words


def project(entry: Entry, events: Events, leg: Leg | None, past: Past, rows: Rows) -> Leg | None:
    """Add the rows that this entry makes or changes; return the leg that the conversation is at then."""
    sheet = Sheet(entry, entry.conversation, entry.at, events, leg, past, rows)
    for sheet.position, event in enumerate(events, entry.position):
        PROJECTIONS[type(event)](sheet, event)
    return sheet.finish()


def _nothing(sheet: Sheet, event: Event | Unreadable) -> None:
    """It is nobody's message, and no task changes by it."""


def _hear(sheet: Sheet, event: UserSpoke) -> None:
    sheet.heard[sheet.position] = event


def _begin(sheet: Sheet, event: RunStarted) -> None:
    sheet.turn_over()
    task = sheet.task(sheet.position)
    spoken = sheet.heard.pop(event.run, None) or sheet.past.event(sheet.id, event.run)
    if not isinstance(spoken, UserSpoke):
        return
    if event.run >= sheet.entry.position:
        sheet.quote(spoken, event.run, task)
    else:
        sheet.rows["given_messages"].append((task, sheet.id, event.run))
    context = merged(sheet.leg.context if sheet.leg else "{}", spoken.context)
    handoff, above = _origin(sheet, spoken.given) if spoken.given else (None, None)
    run = run_id(sheet.id, event.run)
    status = "pending" if event.queued else "running"
    sheet.take_on(Leg(sheet.position, run, handoff, event.agent, status, context, spoken.text), above)


def _origin(sheet: Sheet, given: Given) -> tuple[str, str]:
    """The handoff that made a delegate's conversation, and the task that it serves."""
    parent, call = split_child(sheet.id)
    return handoff_id(parent, call), task_id(parent, given.task)


def _reply(sheet: Sheet, event: ModelReplied) -> None:
    sheet.work()
    task = sheet.task(event.task)
    if event.thinking:
        sheet.say(("thinking", event.thinking, task, event.agent, None))
    if event.text:
        sheet.say(("assistant_message", event.text, task, event.agent, None), 1)
    for index, call in enumerate(event.calls):
        content = as_json({"name": call.name, "args": call.malformed or call.args})
        sheet.say(("tool_call", content, task, event.agent, call_id(sheet.position, index)), 2 + index)


def _answer(sheet: Sheet, event: FunctionReturned) -> None:
    sheet.work()
    if event.text:
        sheet.say(("assistant_message", event.text, sheet.task(event.task), event.agent, None))
    if event.directive:
        sheet.widen(event.directive.context, str(event.task))


def _err(sheet: Sheet, event: ModelFailed | FunctionFailed) -> None:
    sheet.work()
    sheet.say(("error", event.reason, sheet.task(event.task), event.agent, None))


def _choose(sheet: Sheet, event: ReceiverChosen) -> None:
    words = f"{event.receiver}: {event.why}" if event.receiver else event.why
    sheet.say(("status_change", words, sheet.task(event.task), sheet.agent, event.call))


def _choose_tier(sheet: Sheet, event: TierChosen) -> None:
    sheet.note("status_change", f"a {event.tier} task: {event.reason}")


def _try_out(sheet: Sheet, event: VariantChosen) -> None:
    words = f"{event.variant}, of the experiment {event.experiment}"
    sheet.say(("status_change", words, sheet.task(event.task), sheet.agent, None))
    sheet.rows["trials"].append((sheet.entry.root, event.experiment, event.variant, sheet.at))


def _fall_back(sheet: Sheet, event: FellBack) -> None:
    sheet.say(("error", event.reason, sheet.task(event.task), sheet.agent, None))


def _fire(sheet: Sheet, event: RuleFired) -> None:
    sheet.say(("status_change", event.words, sheet.task(event.task), event.agent, call_of(event.call) or None))


def _misjudge(sheet: Sheet, event: RuleFailed) -> None:
    sheet.say(("error", event.words, sheet.task(event.task), event.agent, None))


def _finish_tool(sheet: Sheet, event: ToolFinished) -> None:
    sheet.say(("tool_result", result_words(event), sheet.task(event.task), sheet.agent, event.call))
    if event.directive:
        sheet.widen(event.directive.context, event.call)


def _refuse(sheet: Sheet, event: CallRefused) -> None:
    sheet.say(("tool_result", event.reason, sheet.task(event.task), sheet.agent, event.call))
    if event.why == "guard":
        sheet.refuse(event.receiver, event.reason.removeprefix("refused: "))


def _complete(sheet: Sheet, event: RunCompleted) -> None:
    sheet.end_leg(
        "completed", Standing.COMPLETE, event.output if event.output is not None else last_words(sheet.events)
    )


def _try_again(sheet: Sheet, event: RunResumed) -> None:
    sheet.note("status_change", "running")
    sheet.move("running")
    sheet.stand(Standing.WORKING, None)


PROJECTIONS: dict[type[Event | Unreadable], Callable[[Sheet, Any], None]] = {
    Started: _nothing,
    UserSpoke: _hear,
    RunStarted: _begin,
    ModelReplied: _reply,
    ModelFailed: _err,
    FunctionReturned: _answer,
    FunctionFailed: _err,
    ToolStarted: _nothing,
    ToolFinished: _finish_tool,
    CallRefused: _refuse,
    HandoffOffered: handoffs.offer,
    ContextPacked: handoffs.pack,
    HandoffAccepted: handoffs.accept,
    HandoffReturned: handoffs.come_back,
    HandoffRejected: handoffs.reject,
    CircuitFound: _nothing,
    AlternativeRefused: handoffs.pass_over,
    HandoffConditional: handoffs.condition,
    HandoffExpired: handoffs.expire,
    TicketTaken: handoffs.take_up,
    TicketLapsed: handoffs.fall_back,
    ApprovalRequested: interventions.ask,
    ApprovalWaived: _nothing,
    ApprovalDecided: interventions.decide,
    LimitReached: interventions.reach,
    CancelRequested: interventions.want_cancelled,
    RollbackRequested: handoffs.want,
    HandoffRolledBack: handoffs.roll_back,
    RollbackFailed: handoffs.fail,
    RollbackDone: _nothing,
    ResultJudged: handoffs.judge,
    RepairAsked: _nothing,
    ReceiverChosen: _choose,
    TierChosen: _choose_tier,
    VariantChosen: _try_out,
    FellBack: _fall_back,
    RuleFired: _fire,
    RuleFailed: _misjudge,
    RunCompleted: _complete,
    RunFailed: interventions.fail,
    RunStopped: interventions.stop,
    RunCancelled: interventions.cancel,
    RunResumed: _try_again,
    Unreadable: _nothing,
}
"""What each event means for those who look from outside."""
