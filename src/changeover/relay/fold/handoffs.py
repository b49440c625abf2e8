"""The fold of handoffs: offered, packed, accepted, returned; their records, and the receiver's view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from changeover.facts import DELEGATE, TRANSFER, DelegateResult, Handed, HandoffRecord
from changeover.facts import State as HandoffState
from changeover.faults import LimitFault
from changeover.guards.approval import Decision, Respond
from changeover.guards.guard import Passed
from changeover.handoffs.callback import Acceptance, Rollback
from changeover.handoffs.context import last_messages, merge_variables, select_messages
from changeover.handoffs.protocol import Signal, advance, concluded
from changeover.ids import FIRST_TASK, call_of, child_id, handoff_id, task_id
from changeover.messages import Assistant, Message, Note, User
from changeover.relay.events import (
    ContextPacked,
    Given,
    HandoffAccepted,
    HandoffOffered,
    HandoffReturned,
    Hop,
    UserSpoke,
)
from changeover.relay.fold.calls import dropped, edited
from changeover.relay.run import Acting, Run, Stopping, Task, Thinking, declared_by
from changeover.relay.turn import Answered, Declined, Delegated, Directed, Fresh, Offered, OpenCall, Turn, way_of
from changeover.tools.command import Directive

if TYPE_CHECKING:
    from changeover.relay.state import State


def pack(state: State, run: Run, event: ContextPacked) -> None:
    if event.usage is not None:
        run.charge(state.agent, event.usage)
        state.summaries += 1
    if (found := run.offered(event.call)) is None:
        return
    turn, call, offered = found
    if event.chapter is not None and event.covered > state.covered:
        # Other offers of the same reply may have packed the same messages; the first chapter stays.
        state.chapters, state.covered = (*state.chapters, event.chapter), event.covered
    call.phase = replace(offered, packed=event)
    turn.idle[call.id] = call


CODE = "code"
"""The sender of an offer by code, unless the package names one."""
OFFERED = HandoffState.PENDING
COMPLETE = Signal.COMPLETE
IN_WORK = advance(OFFERED, Signal.ACCEPT, Signal.START)
"""The receiver starts in the append that records its acceptance."""


def record_of(conversation: str, task: str, run: Run, call: OpenCall, offered: Offered) -> HandoffRecord:
    """The record of a handoff; `task` is the receiver's task, empty without one."""
    offer, packed = offered.offer, offered.packed
    return HandoffRecord(
        handoff_id(conversation, offer.call),
        offer.sender,
        offer.receiver,
        offer.message,
        offer.mode,
        IN_WORK,
        offered.at,
        call.call.name,
        offer.variables,
        packed.strategy if packed else offer.strategy,
        run.ref,
        task,
        "",
        offer.attempt,
        offer.retry_of,
        offer.before,
        packed.after if packed else offer.after,
        packed.error if packed else "",
        offer.sender_name or offer.sender,
        offer.receiver_name or offer.receiver,
    )


def handed_of(offer: HandoffOffered, tool: str, run: Run, now: float, path: list[str]) -> Handed:
    """The handoff for its receiver, with what the run had spent by then."""
    return Handed(
        offer.sender,
        offer.message,
        tool,
        offer.instructions,
        run.tokens,
        now - run.at,
        run.retries,
        path,
        len(path),
        offer.expected,
        offer.include,
        offer.exclude,
    )


def sender_of(package: Mapping[str, Any]) -> str:
    """The sender of an offer by code."""
    return package.get("metadata", {}).get("sender") or CODE


def task_of(run: Run, offer: HandoffOffered) -> str:
    """The task of a delegate: the sender's message, else the user's request."""
    return offer.message or run.spoken.text


def last_words(record: Sequence[Message], agent: str = "") -> str:
    """The last words of an agent, or of any agent."""
    texts = (each.text for each in reversed(record) if isinstance(each, Assistant) and agent in ("", each.agent))
    return next((text for text in texts if text), "")


def undone_words(reason: str) -> str:
    """The error of a handoff that was rolled back."""
    return f"rolled back: {reason}" if reason else "rolled back"


def handed_to_delegate(given: Given, spoken: UserSpoke, path: list[str]) -> Handed:
    """The handoff for a delegate, from the task that its conversation was given."""
    return Handed(
        given.sender,
        spoken.text,
        given.tool,
        given.instructions,
        given.tokens,
        given.elapsed,
        given.retries,
        path,
        len(path),
        given.expected,
        given.include,
        given.exclude,
        asked=True,
    )


def said_before(thread: Sequence[Message], turn: Turn, call: OpenCall) -> list[Message]:
    """The sender's messages without the call that hands over. The thread ends with the sender's reply, unless a
    Function member or code hands over."""
    if turn.quiet:
        return list(thread)
    *before, reply = thread
    assert isinstance(reply, Assistant)
    others = [
        (other.call, result) for other, result in zip(turn.asked, turn.results(), strict=True) if other is not call
    ]
    if not others and not reply.text:
        return before
    # Without the provider's extra data, which belongs to the whole reply.
    kept = replace(reply, calls=tuple(asked for asked, _ in others), extra={})
    return [*before, kept, *(result for _, result in others)]


def view_of(
    offer: HandoffOffered, packed: ContextPacked | None, spoken: UserSpoke, said: Sequence[Message]
) -> list[Message]:
    """A new thread for a receiver that does not get the whole one; it always holds the user's request."""
    request = User(spoken.text, author_of(spoken), spoken.files)
    if packed is not None and packed.messages:
        return list(packed.messages)
    if packed is not None and packed.briefing:
        return [request, Note(packed.briefing, offer.sender)]
    shown = last_messages(select_messages(said, offer.include, offer.exclude), offer.shown)
    if not any(isinstance(each, User) and each.text == request.text for each in shown):
        shown = [request, *shown]
    return [*shown, Note(offer.message, offer.sender)] if offer.message else shown


def author_of(spoken: UserSpoke) -> str:
    """The author of a request: the delegating agent, the named user, or "user"."""
    return spoken.given.sender if spoken.given else spoken.user or "user"


OFFERABLE = (Fresh, Directed, Declined)
BROUGHT_BACK = (Delegated, Offered, Declined)
"""Phases from which a result returns: of a delegate, of a person, or of an offer that no receiver accepted."""
OWN_LIMITS = ("max_iterations", "max_depth")
"""Limits that end the branch which reaches them; every other one is a limit of the whole run."""
SUMMARY = 200
"""Number of characters above which a response also has a summary."""


def offer(state: State, run: Run, event: HandoffOffered) -> None:
    if not isinstance(run.phase, Acting):
        return
    turn = run.phase.turn
    delegated = event.mode is DELEGATE
    if delegated and call_of(event.call) not in turn.calls:
        turn.send_out(event.call)
    call = turn.find(event.call)
    if call is None or not isinstance(phase := call.phase, OFFERABLE):
        return
    if call.conditions and (event.needs_context or event.needs_permission):
        call.conditions = tuple(each for each in call.conditions if each.receiver != event.receiver)
    if delegated:
        call.phase, call.since = Offered(event, state.at), (run.progress, run.news, len(run.trail))
    elif turn.offered is None or turn.offered is call:
        commanded = phase.commanded if isinstance(phase, Declined) else isinstance(phase, Directed)
        call.phase, turn.offered = Offered(event, state.at, commanded), call
    else:
        return
    if event.receiver_name:
        state.names[event.receiver] = event.receiver_name
    run.count_handoff(event.sender)  # counted from the offer on, so that no offer exceeds a limit
    run.queued = run.queued or event.queued


def accept(state: State, run: Run, event: HandoffAccepted) -> None:
    if (found := run.offered(event.call)) is None:
        return
    turn, call, offered = found
    offer = offered.offer
    if run.declined:
        run.declined.pop(way_of(offer.mode, call), None)
    if offer.mode is TRANSFER:
        if offered.verdict is not None:
            run.verdict = offered.verdict if isinstance(_decision(offered), Respond) else None
        _hand_over(state, run, turn, call, offered)
    elif isinstance(_decision(offered), Respond):
        _answer_for(state, run, call, offered)
    else:
        _delegate(state, run, turn, call, offered, event.deadline)
    if (policy := offer.policy) is not None and policy.on_accepted:
        state.owe(Acceptance(state.handoffs[-1], event.by))


def _decision(offered: Offered) -> Decision | None:
    return offered.verdict.decision if offered.verdict else None


def _answer_for(state: State, run: Run, call: OpenCall, offered: Offered) -> None:
    """Record the acceptance of a delegate that is a person and has the answer ready."""
    call.phase = replace(offered, index=len(state.handoffs))
    state.handoffs.append(record_of(state.id, "", run, call, offered))


def _delegate(state: State, run: Run, turn: Turn, call: OpenCall, offered: Offered, deadline: float | None) -> None:
    """Start a delegate in a child conversation, where its first task always has the same position."""
    run.agents.add(offered.offer.receiver)
    turn.move(call, Delegated(offered.offer, len(state.handoffs), deadline, packed=offered.packed))
    state.handoffs.append(
        record_of(state.id, task_id(child_id(state.id, offered.offer.call), FIRST_TASK), run, call, offered)
    )
    run.delegates = True


def _hand_over(state: State, run: Run, turn: Turn, call: OpenCall, offered: Offered) -> None:
    offer, packed, position = offered.offer, offered.packed, state.position
    whole = offer.is_whole
    # A new list: the old one is still read by the model call of the sender.
    view = [] if whole else view_of(offer, packed, run.spoken, said_before(state.thread, turn, call))
    more = f"{dropped(offer.dropped)}{edited(call)}" if offer.dropped or call.edit else ""
    call.phase = Answered(f"transferred to {offer.receiver}{more}")
    state.add(*turn.results())
    state.end_leg(COMPLETE)
    record = record_of(state.id, task_id(state.id, position), run, call, offered)
    state.leg = len(state.handoffs)
    state.handoffs.append(record)
    state.undoes = offer.policy is not None and offer.policy.on_failure == "rollback"
    run.strikes, run.let_down, run.phase = 0, "", Thinking(str(position))
    run.ticket, run.worn_out = record.id if offer.queued else "", False
    if offer.expected is not None or run.wishes:
        run.wishes[offer.call] = offer.expected and declared_by(offer.expected, offer.sender, call.call.name)
    run.agents.add(offer.receiver)
    gains = _join_variables(state, offer) if offer.variables or offer.merge == "replace" else False
    context = (state.variables, state.artifacts, state.workflow_state)
    run.trail.append(Passed(offer.sender, offer.receiver, offer.message, *context, run.progress, offer.mode, run.news))
    if gains:
        run.gain()
    work = state.work
    work.status, most = "completed", offer.max_iterations or work.max_iterations
    state.work = Task(position, run.ref, offer.receiver, work.input, record.id, "pending", most)
    state.agent, state.task, state.return_to = offer.receiver, position, offer.return_to
    state.path.append(offer.receiver)
    state.handed = handed_of(offer, call.call.name, run, state.at, state.path)
    if not whole:
        state.see(view, len(view) if state.chapters and packed and packed.retold else 0)
        if packed is not None and packed.left_out is not None:
            state.chapters, state.covered = (*state.chapters, packed.left_out), len(view)
    elif offered.commanded and offer.message:
        state.add(Note(offer.message, offer.sender))


def _join_variables(state: State, offer: HandoffOffered) -> bool:
    """Join the variables of an offer to the context; True if that changes the context."""
    before = state.variables
    state.variables = after = merge_variables(before, offer.variables, offer.merge)
    if not before.keys() <= after.keys():
        state.undoing.dropped[offer.call] = {name: value for name, value in before.items() if name not in after}
    return after != before


def take_back(state: State, run: Run, event: HandoffReturned) -> None:
    found = run.find(event.call, BROUGHT_BACK)
    if not found or not isinstance(delegated := found[1].phase, BROUGHT_BACK) or delegated.offer.call != event.call:
        return
    turn, call = found
    if isinstance(delegated, Offered) and delegated.index < 0:
        return  # no receiver has accepted it
    run.take_back(event.spent, call.id)
    if not isinstance(delegated, Declined):
        _note_end(state, run, delegated, event)
        pass_back(state, run, call, delegated.offer, event.response or event.error)
        run.progress += event.success
        run.news += bool(event.artifacts or event.workflow_state)
    note = f"{dropped(delegated.offer.dropped)}{edited(call)}".strip()
    call.result = result = _result(state.id, event, note, state.undoing.failed.get(event.call, ""))
    text = msgspec.json.encode(result).decode()
    if isinstance(run.phase, Stopping):
        turn.answer(call, text, event.success, at=state.at)
        return
    state.update(turn, call, Directive(artifacts=event.artifacts, workflow_state=event.workflow_state))
    if isinstance(event.fault, LimitFault) and event.fault.limit not in OWN_LIMITS:
        run.struck = event.fault
    elif not (event.success or event.cancelled or event.declined or event.call in state.undoing.failed):
        run.let_down = f"{event.receiver} failed: {event.error}"
    if delegated.offer.final and event.success:
        # Its answer becomes the run's answer when every other call of the turn is done.
        turn.move(call, Directed(Directive(end=True, output=event.response), text, event.author or event.receiver))
    else:
        state.answer(run, turn, call, text, event.success)


def pass_back(state: State, run: Run, call: OpenCall, offer: HandoffOffered, answer: str) -> None:
    """Note that a delegate is back, for guards, and whether its answer is new."""
    progress, news, _ = call.since
    variables = merge_variables(state.variables, offer.variables, offer.merge)
    context, task = (variables, state.artifacts, state.workflow_state), task_of(run, offer)
    run.trail.append(Passed(offer.sender, offer.receiver, task, *context, progress, offer.mode, news))
    run.news += run.hears(offer.receiver, task, answer)


def trail_to(state: State, given: Given, task: str) -> list[Passed]:
    """The handoffs that led to a delegate, as guards of its run see them; its own is the last."""
    hops = (*given.trail, Hop(given.sender, state.agent, task))
    return [Passed(hop.sender, hop.receiver, hop.message, *state.travelling, 0, hop.mode) for hop in hops]


def _note_end(state: State, run: Run, phase: Delegated | Offered, event: HandoffReturned) -> None:
    record, recalled = state.handoffs[phase.index], phase.recalled if isinstance(phase, Delegated) else None
    if event.success:
        standing = concluded(record.state, Signal.COMPLETE, Signal.RETURN)
    else:
        standing = concluded(record.state, Signal.RETURN if event.cancelled else Signal.FAIL)
    state.handoffs[phase.index] = back = replace(record, state=standing, error=event.error)
    if recalled is not None and recalled.cleans and not event.success:
        state.owe(Rollback(back, recalled.reason, recalled.by, event.response))
    elif not (event.success or event.cancelled) and rolls_back(run, phase.offer, "on_failure"):
        state.undoing.failed[event.call] = event.partial


def rolls_back(run: Run, offer: HandoffOffered, end: Literal["on_timeout", "on_failure"]) -> bool:
    """True if the declaration of an offer rolls it back after this end; False while its run is stopping."""
    policy = offer.policy
    return policy is not None and getattr(policy, end) == "rollback" and not isinstance(run.phase, Stopping)


def _result(conversation: str, event: HandoffReturned, note: str, partial: str) -> DelegateResult:
    response = event.response or partial
    return DelegateResult(
        handoff_id=handoff_id(conversation, event.call),
        agent=event.receiver,
        success=event.success,
        response=response,
        summary=f"{response[:SUMMARY].rstrip()}…" if len(response) > SUMMARY else "",
        author=event.author,
        iterations=event.iterations,
        tool_calls=event.tool_calls,
        duration=round(event.duration, 3),
        error=event.error,
        note=note,
    )
