"""Projection: computes the rows of the read models beside the fold; runs, turns and tools are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changeover.ids import call_id, call_of
from changeover.relay.events import (
    AlternativeRefused,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWaived,
    CallRefused,
    CancelRequested,
    CircuitFound,
    ContentChecked,
    ContextPacked,
    Entry,
    Event,
    FellBack,
    FollowUpDone,
    FollowUpFailed,
    FunctionFailed,
    FunctionReturned,
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
    Renamed,
    RepairAsked,
    ResultJudged,
    RollbackBegan,
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
    SkillLoaded,
    Started,
    StepBegan,
    StepFailed,
    StepSkipped,
    StepSpread,
    TicketLapsed,
    TicketTaken,
    TierChosen,
    ToolFinished,
    ToolStarted,
    Unreadable,
    UserSpoke,
    VariantChosen,
    WorkflowBegan,
)
from changeover.relay.fold.workflow import result_text
from changeover.relay.projection import handoffs, interventions
from changeover.relay.projection.changes import MEANINGS
from changeover.relay.projection.rows import Rows, as_json
from changeover.relay.projection.sheet import Sheet
from changeover.relay.projection.texts import fault_words, result_words
from changeover.relay.run import Replied, Run
from changeover.relay.state import State


def _nothing(sheet: Sheet, event: Event | Unreadable) -> None:
    """Add no message."""


def _hear(sheet: Sheet, event: UserSpoke) -> None:
    sheet.heard[sheet.state.position] = event
    if sheet.start:  # else the row of the conversation begins with this entry
        sheet.rows["heard_conversations"].append((sheet.at, sheet.id))


def _rename(sheet: Sheet, event: Renamed) -> None:
    sheet.rows["renamed_conversations"].append((event.title, sheet.id))


def _begin(sheet: Sheet, event: RunStarted) -> None:
    sheet.separate_runs()
    state = sheet.state
    if state.run is not None or next(iter(state.inbox), None) != event.run:
        return
    task = sheet.task(state.position)
    if event.run in sheet.heard:
        sheet.quote(sheet.heard.pop(event.run), event.run, task)
    else:
        sheet.rows["given_messages"].append((task, sheet.id, event.run))
    if event.withdrawn:
        sheet.say(("status_change", event.notice, task, event.agent, None))


def _reply(sheet: Sheet, event: ModelReplied) -> None:
    sheet.begin()
    task = sheet.task(event.task)
    if event.thinking:
        sheet.say(("thinking", event.thinking, task, event.agent, None))
    if event.text:
        sheet.say(("assistant_message", event.text, task, event.agent, None), 1)
    for index, call in enumerate(event.calls):
        content = as_json({"name": call.name, "args": call.malformed or call.args})
        sheet.say(("tool_call", content, task, event.agent, call_id(sheet.state.position, index)), 2 + index)


def _answer(sheet: Sheet, event: FunctionReturned) -> None:
    sheet.begin()
    if event.text:
        sheet.say(("assistant_message", event.text, sheet.task(event.task), event.agent, None))


def _err(sheet: Sheet, event: ModelFailed | FunctionFailed) -> None:
    sheet.begin()
    sheet.say(("error", event.reason, sheet.task(event.task), event.agent, None))


def _choose(sheet: Sheet, event: ReceiverChosen) -> None:
    words = f"{event.receiver}: {event.why}" if event.receiver else event.why
    sheet.say(("status_change", words, sheet.task(event.task), sheet.agent, event.call))


def _choose_tier(sheet: Sheet, event: TierChosen) -> None:
    sheet.note("status_change", f"a {event.tier} task: {event.reason}")


def _try_out(sheet: Sheet, event: VariantChosen) -> None:
    words = f"{event.variant}, of the experiment {event.experiment}"
    sheet.say(("status_change", words, sheet.task(event.task), sheet.agent, None))
    sheet.rows["trials"].append((sheet.state.root, event.experiment, event.variant, sheet.at))


def _fall_back(sheet: Sheet, event: FellBack) -> None:
    sheet.say(("error", event.reason, sheet.task(event.task), sheet.agent, None))
    if event.agent:
        sheet.rows["withdrawn_approvals"].append((sheet.id,))
        sheet.touch()


def _check(sheet: Sheet, event: ContentChecked) -> None:
    task = sheet.task(event.task)
    sheet.say(("status_change", event.words, task, event.agent, None))
    if event.direction == "input":
        sheet.begin()
        if event.verdict == "deny":
            sheet.say(("assistant_message", event.reason, task, event.agent, None), 1)


def _fire(sheet: Sheet, event: RuleFired) -> None:
    task = sheet.task(event.task)
    sheet.say(("status_change", event.words, task, event.agent, call_of(event.call) or None))
    if event.end:
        sheet.say(("assistant_message", event.end, task, event.agent, None), 1)


def _misjudge(sheet: Sheet, event: RuleFailed) -> None:
    sheet.say(("error", event.words, sheet.task(event.task), event.agent, None))


def _finish_tool(sheet: Sheet, event: ToolFinished) -> None:
    sheet.say(("tool_result", result_words(event), sheet.task(event.task), sheet.agent, event.call))


def _load_skill(sheet: Sheet, event: SkillLoaded) -> None:
    content = as_json({"skill": event.skill, "text": event.text})
    sheet.say(("skill_load", content, sheet.task(event.task), sheet.agent, event.call))


def _refuse(sheet: Sheet, event: CallRefused) -> None:
    sheet.say(("tool_result", event.reason, sheet.task(event.task), sheet.agent, event.call))
    if event.why == "guard":
        sheet.refuse(event.receiver, event.reason.removeprefix("refused: "))
    elif event.limit:
        sheet.reach(event.limit)


def _begin_step(sheet: Sheet, event: StepBegan) -> None:
    what = f"undo {event.step}" if event.undo else event.step
    item = f" {event.item + 1}" if event.item else ""
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    sheet.say(("status_change", f"step {what}{item}{again}", sheet.task(event.task), sheet.agent, None))


def _skip_step(sheet: Sheet, event: StepSkipped) -> None:
    sheet.say(
        ("status_change", f"step {event.step} skipped: {event.reason}", sheet.task(event.task), sheet.agent, None)
    )


def _fail_step(sheet: Sheet, event: StepFailed) -> None:
    sheet.say(("error", f"step {event.step}: {event.reason}", sheet.task(event.task), sheet.agent, None))


def _roll_back(sheet: Sheet, event: RollbackBegan) -> None:
    sheet.note("status_change", f"rolling back: {fault_words(event.fault)}")


def _complete(sheet: Sheet, event: RunCompleted) -> None:
    run = sheet.state.run
    if run is not None and run.flow is not None:
        sheet.end_steps()
        return sheet.touch(result_text(run.flow, event.output))
    return sheet.touch(event.output if event.output is not None else _answer_of(run))


def _answer_of(run: Run | None) -> str | None:
    """The final answer of the active agent, or of a person in its place."""
    return run.phase.text or None if run is not None and isinstance(run.phase, Replied) else None


def _try_again(sheet: Sheet, event: RunResumed) -> None:
    sheet.note("status_change", "running")
    sheet.touch()


PROJECTIONS: dict[type[Event | Unreadable], Callable[[Sheet, Any], None]] = {
    Started: _nothing,
    Renamed: _rename,
    UserSpoke: _hear,
    RunStarted: _begin,
    ModelReplied: _reply,
    ModelFailed: _err,
    FunctionReturned: _answer,
    FunctionFailed: _err,
    ToolStarted: _nothing,
    ToolFinished: _finish_tool,
    SkillLoaded: _load_skill,
    CallRefused: _refuse,
    HandoffOffered: _nothing,
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
    FollowUpFailed: handoffs.fail_to_follow,
    FollowUpDone: _nothing,
    ResultJudged: handoffs.judge,
    RepairAsked: _nothing,
    ReceiverChosen: _choose,
    TierChosen: _choose_tier,
    VariantChosen: _try_out,
    FellBack: _fall_back,
    ContentChecked: _check,
    RuleFired: _fire,
    RuleFailed: _misjudge,
    WorkflowBegan: _nothing,
    StepSpread: _nothing,
    StepBegan: _begin_step,
    StepSkipped: _skip_step,
    StepFailed: _fail_step,
    RollbackBegan: _roll_back,
    RunCompleted: _complete,
    RunFailed: interventions.fail,
    RunStopped: interventions.stop,
    RunCancelled: interventions.cancel,
    RunResumed: _try_again,
    Unreadable: _nothing,
}
"""What each event adds to the read models, beside what it means for handoffs and tasks."""


class Projection(Sheet):
    """Applies the events of one entry to a state, and computes the rows that they add and change."""

    __slots__ = ()

    def apply(self, event: Event | Unreadable) -> None:
        state, kind = self.state, type(event)
        PROJECTIONS[kind](self, event)
        if (read := MEANINGS.get(kind)) is not None:
            for change in read(state, event):
                self.changes.append(change)
                self.write_handoff(change)
        variables = state.variables
        state.apply(event)
        if state.work is not self.working:
            self.begin_task(event, variables)


def rows_of(state: State, entry: Entry) -> Rows:
    """Fold an entry, and return the rows that it adds and changes."""
    projection = Projection(state)
    projection.fold(entry)
    return projection.finish()
