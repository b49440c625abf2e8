"""Delegates: the commands that run one in a conversation of its own, and that call it back."""

from __future__ import annotations

from changeover.agent.roster import Roster
from changeover.handoffs.strategies import Chapter
from changeover.ids import Mark, at_span, child_id, command_id, handoff_id
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.decide.context import briefing_of
from changeover.relay.decide.workflow import handed
from changeover.relay.events import ContextPacked, Given, HandoffOffered, Hop, RollbackRequested, Started, UserSpoke
from changeover.relay.fold.handoffs import task_of, undone_words
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated, OpenCall, Turn


def run_child(state: State, run: Run, turn: Turn, call: OpenCall, phase: Delegated, roster: Roster) -> RunChild:
    """The command that runs a delegate; its input stays the same until the turn ends."""
    offer, packed, not_before = phase.offer, phase.packed, 0.0
    task, given = task_of(run, offer), offer.variables
    if turn.flow is not None:
        task, given = handed(state, turn.flow, call, offer, roster)
        not_before = turn.flow.calls[call.id][0].not_before
    variables = {**state.variables, **given} if given else state.variables
    spoken = UserSpoke(
        task,
        run.spoken.user,
        offer.receiver,
        variables,
        run.limits,
        run.spoken.correlation_id,
        Given(
            offer.sender,
            offer.task,
            call.call.name,
            offer.instructions,
            briefing_of(state, run, turn, phase, roster),
            offer.max_iterations,
            tuple(state.path),
            run.tokens,
            state.at - run.at,
            run.retries,
            state.artifacts,
            state.workflow_state,
            offer.expected,
            handoff_id(state.id, offer.call) if offer.queued else "",
            _chapters(state, packed) if packed is not None else (),
            offer.include,
            offer.exclude,
            state.variants,
            _trail(run, call) if turn.flow is None and variables == state.variables else (),
            run.edition,
        ),
        run.spoken.files,
        trace=at_span(run.spoken.trace, handoff_id(state.id, offer.call)) if run.spoken.trace else "",
    )
    opening = Started(state.root, state.id, state.depth + 1)
    child = child_id(state.id, offer.call)
    return RunChild(
        offer.call, state.task, child, opening, spoken, offer.receiver, phase.deadline, offer.queued, not_before
    )


def _trail(run: Run, call: OpenCall) -> tuple[Hop, ...]:
    """The handoffs before this one, as far back as nothing happened in between. The delegate's run begins with them, so
    that its guards find agents that ask each other the same."""
    progress, news, length = call.since
    found = list[Hop]()
    for index in range(length - 1, -1, -1):
        passed = run.trail[index]
        if (passed.progress, passed.news) != (progress, news):
            break
        found.insert(0, Hop(passed.sender, passed.receiver, passed.message, passed.mode))
    return tuple(found)


def _chapters(state: State, packed: ContextPacked) -> tuple[Chapter, ...]:
    """The chapters that a delegate can read."""
    told = state.chapters if packed.retold else ()
    return told if packed.left_out is None else (*told, packed.left_out)


def call_back(state: State, offer: HandoffOffered, wanted: RollbackRequested | None = None) -> CancelChild:
    """The command that cancels a delegate, because that was requested or because its sender stops."""
    opening, child = Started(state.root, state.id, state.depth + 1), child_id(state.id, offer.call)
    why = (undone_words(wanted.reason), wanted.by) if wanted else ("cancelled", offer.sender)
    return CancelChild(
        command_id(offer.call, Mark.RECALL), state.task, offer.call, child, opening, offer.receiver, *why
    )
