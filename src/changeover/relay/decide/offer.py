"""The one pipeline that makes offers: receiver, approval, limits, deadline, context, guards.

Each way to hand off (a tool of a model, a Command, a branch, the next receiver after a refusal, code) builds a
`Proposal`; `propose` takes it through the steps.
"""

from __future__ import annotations

from math import inf
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.agent import Person
from changeover.agent.handoff import ITERATIONS
from changeover.agent.moves import (
    DelegateTo,
    Intent,
    Move,
    NoSuchReceiver,
    Transfer,
    TransferToAny,
    misfit_words,
    not_json,
)
from changeover.agent.roster import Roster, Seat
from changeover.facts import DELEGATE, TRANSFER, Expected
from changeover.faults import ReceiverFault
from changeover.guards.approval import Approval
from changeover.handoffs.briefing import briefed_by
from changeover.handoffs.context import strip_forged
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly
from changeover.handoffs.tokens import count
from changeover.ids import Mark, command_id, handoff_id, next_offer, reply_of, split_handoff
from changeover.relay.budget import crowded, exceeded
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.decide.context import brief_for, with_context
from changeover.relay.decide.limits import REASONS, alone, fail, may_hand_off, over_limit, refused_before
from changeover.relay.decide.rules import guarded
from changeover.relay.decide.variants import receiver_variant, strategy_variant
from changeover.relay.events import AlternativeRefused, CallRefused, HandoffOffered
from changeover.relay.run import Run
from changeover.relay.state import State, context_of
from changeover.relay.turn import Declined, OpenCall, Turn, way_of

Limited = Literal["run", "agents", ""]


class Step(Struct, frozen=True, gc=False):
    """The next receiver after a refusal, and how it is asked."""

    receiver: str
    queued: bool = False
    brokered: bool = False
    """True if other receivers can be asked after this one."""
    needs_context: tuple[str, ...] = ()
    needs_permission: tuple[str, ...] = ()
    """The conditions on which the receiver accepts, as its answer named them."""


class Proposal(Struct, frozen=True, gc=False):
    """A handoff that is wanted, the call that asks for it, and the checks that apply to it."""

    turn: Turn
    call: OpenCall
    move: Move | None
    """What the call means for the agent of the turn; None for code, Function members and rules."""
    intent: Intent
    origin: Literal["call", "command", "branch", "alternative", "step"]
    id: str
    """Id of the handoff: that of the call, of its branch, or of the next attempt."""
    dropped: tuple[str, ...] = ()
    """Arguments that the model may not set, and that were removed."""
    approval: Approval | None = None
    limited: Limited = "run"
    """The limits that apply: all of the run, only the number of its agents, or none."""
    guarded: bool = True
    """True if guards and rules are asked; code is not guarded."""
    declined: Declined | None = None
    """The handoff that this one follows, if it is an alternative."""
    step: Step | None = None

    @property
    def refused_id(self) -> str:
        """Id of the call that a refusal answers."""
        return self.id if self.origin == "branch" else self.call.id


def from_call(
    state: State, run: Run, asker: tuple[Turn, OpenCall], move: TransferToAny | Transfer | DelegateTo, roster: Roster
) -> Record | SeekApproval:
    """Offer what a model asks for by a handoff tool or a delegate tool."""
    turn, call = asker
    intent, dropped = read_intent(state, asker, move, roster)
    if isinstance(intent, Record):
        return intent
    if call.chosen is not None:
        intent = replace(intent, receiver=call.chosen.receiver)
    proposal = Proposal(turn, call, move, intent, "call", call.id, dropped, move.approval)
    return propose(state, run, proposal, roster)


def read_intent(
    state: State, asker: tuple[Turn, OpenCall], move: TransferToAny | Transfer | DelegateTo, roster: Roster
) -> tuple[Intent | Record, tuple[str, ...]]:
    """What the arguments of a call ask for, or the refusal that tells the model what is wrong with them; and the
    arguments that were removed."""
    turn, call = asker
    if call.call.malformed:
        return _misfit(state, call, not_json(call.call)), ()
    args, dropped = strip_forged(call.call.args)
    intent = move.read(args, turn.text)
    if isinstance(intent, Intent):
        return intent, dropped
    if isinstance(intent, NoSuchReceiver):
        return _unreachable(state, call, intent.receiver, intent.available, roster), dropped
    return _misfit(state, call, intent.reason), dropped


def from_refusal(
    state: State, run: Run, asker: tuple[Turn, OpenCall], step: Step, limited: Limited, roster: Roster
) -> Record:
    """Offer a declined handoff to the next receiver. Guards are asked if only the limit of agents applies, that is if
    neither a person nor a broker chose the receiver."""
    turn, call = asker
    declined = call.phase
    assert isinstance(declined, Declined)
    before = declined.offer
    intent = Intent(step.receiver, before.message, before.variables, before.mode, timeout=declined.timeout)
    is_guarded = limited == "agents" and not (turn.code or call.branch_of)
    proposal = Proposal(
        turn,
        call,
        roster.move_of(turn.agent, call.call.name),
        intent,
        "alternative",
        next_offer(before.call),
        limited=limited,
        guarded=is_guarded,
        declined=declined,
        step=step,
    )
    due = propose(state, run, proposal, roster)
    assert isinstance(due, Record)  # an alternative is refused where a person would have to be asked
    return due


def propose(state: State, run: Run, proposal: Proposal, roster: Roster) -> Record | SeekApproval:
    """Take a proposal through all steps: the offer, a refusal, or what has to be recorded or asked first."""
    call = proposal.call
    receiver = proposal.step.receiver if proposal.step else _receiver(state, run, proposal, roster)
    if isinstance(receiver, Record):
        return receiver
    if run.declined and (refusal := refused_before(state, run, proposal, receiver)):
        return refusal
    if proposal.origin in ASKING and (approval := demanded(call, proposal.approval, receiver)) is not None:
        id, what = call.request_id(receiver), (call.call, approval, receiver, proposal.intent.message)
        return SeekApproval(command_id(id, Mark.CHECK), state.task, context_of(state, run, id), *what)
    if proposal.limited and (refusal := _over_limit(state, run, proposal, receiver, roster)):
        return refusal
    offer = _draft(state, run, proposal, receiver, roster)
    return guarded(state, run, proposal, offer, roster) if proposal.guarded else Record(offer)


ANY = Approval()
ASKING = ("call", "step")
"""Origins that may declare an approval, and whose receivers are known to be allowed."""


def demanded(call: OpenCall, declared: Approval | None, receiver: str) -> Approval | None:
    """The approval that is still due. One that was given for another receiver is asked for again, even if the
    declaration no longer demands it."""
    if not call.holds_for(receiver):
        return declared or ANY
    return None if call.cleared else declared


def _receiver(state: State, run: Run, proposal: Proposal, roster: Roster) -> str | Record:
    """The receiver: the one that a person named, else the variant of an experiment, else the one that is wanted."""
    turn, call, receiver = proposal.turn, proposal.call, proposal.intent.receiver
    edited = call.edit.receiver if call.edit is not None and proposal.origin != "branch" else ""
    if proposal.origin in ASKING:
        if edited:
            return edited
    elif not may_hand_off(state, turn, roster):
        return alone(state, run, turn, (proposal.id, edited or receiver))
    receiver = edited or receiver
    if roster.trials and not edited and not turn.code:
        return _variant(state, run, proposal, receiver, roster)
    if _is_available(proposal, receiver, roster):
        return receiver
    return _unavailable(state, run, proposal, receiver, roster)


def _variant(state: State, run: Run, proposal: Proposal, receiver: str, roster: Roster) -> str | Record:
    """The variant of the receiver under the experiments of the tree."""
    # A transfer has to name a receiver that is there; for a delegate, the variant may stand in for an absent one.
    delegated = proposal.intent.mode is DELEGATE
    if not delegated and not _is_available(proposal, receiver, roster):
        return _unavailable(state, run, proposal, receiver, roster)
    found = receiver_variant(state, proposal.turn.agent, receiver, roster)
    if isinstance(found, Record) or not delegated or _is_available(proposal, found, roster):
        return found
    return _unavailable(state, run, proposal, found, roster)


def _is_available(proposal: Proposal, receiver: str, roster: Roster) -> bool:
    if proposal.origin == "call":
        # If the router chose among several, an absent receiver declines and the next one is asked.
        return receiver not in roster.absent or proposal.call.chosen is not None
    # An offer by code to an absent member is declined like any other.
    return roster.member(receiver) is not None and (proposal.turn.code or receiver not in roster.absent)


def _unavailable(state: State, run: Run, proposal: Proposal, receiver: str, roster: Roster) -> Record:
    turn = proposal.turn
    if proposal.origin == "call":
        seat = roster.seats[turn.agent]
        assert isinstance(seat, Seat)
        names = seat.transfers if proposal.intent.mode is TRANSFER else seat.receivers
        return _unreachable(state, proposal.call, receiver, names, roster)
    if turn.deaf and proposal.origin == "command":
        return fail(run, ReceiverFault(state.agent, receiver, roster.present))
    reason = f"{roster.missing(receiver)}; this team has: {', '.join(roster.present)}"
    why: Literal["command", "ignored"] = "command" if proposal.origin == "command" else "ignored"
    return Record(CallRefused(proposal.id, state.task, reason, why, receiver))


def _unreachable(state: State, call: OpenCall, receiver: str, names: tuple[str, ...], roster: Roster) -> Record:
    reason = f"{roster.missing(receiver)}; you can hand off to: {', '.join(names) or 'no agent'}"
    return Record(CallRefused(call.id, state.task, reason, "receiver", receiver))


def _misfit(state: State, call: OpenCall, reason: str) -> Record:
    return Record(CallRefused(call.id, state.task, misfit_words(call.call.name, reason), "arguments"))


def _over_limit(state: State, run: Run, proposal: Proposal, receiver: str, roster: Roster) -> Record | None:
    limits = run.limits or roster.limits
    if proposal.limited == "agents":
        assert proposal.declined is not None
        if not crowded(state, run, receiver, limits):
            return None
        reason = REASONS["max_agents"].format(limits.max_agents)
        return Record(AlternativeRefused(proposal.declined.offer.call, state.task, receiver, reason))
    nested = proposal.intent.mode is DELEGATE and proposal.declined is None
    limit = exceeded(state, run, limits, receiver, nested)
    return over_limit(state, run, (proposal.refused_id, receiver), limit, roster) if limit else None


def _draft(state: State, run: Run, proposal: Proposal, receiver: str, roster: Roster) -> HandoffOffered:
    """The offer with its deadline, its predecessor, and the part of the context that its receiver gets."""
    if proposal.origin == "step":  # its member gets the task, and nothing else
        offer = _draft_first(state, run, proposal, receiver, 0, roster)
        return replace(offer, strategy=MessageOnly.name, after=count(offer.message))
    strategy, turn = _strategy(state, run, proposal, receiver, roster), proposal.turn
    # Most transfers: the receiver reads the whole thread, and the offer is built only once.
    whole = strategy.whole and proposal.intent.mode is TRANSFER and not turn.code
    tokens = state.scale.weigh(state.thread) if whole else 0
    if proposal.declined is None or proposal.step is None:
        offer = _draft_first(state, run, proposal, receiver, tokens, roster)
    else:
        offer = _draft_again(state, run, proposal, proposal.declined, proposal.step, roster)
        if whole:  # it may have had another strategy before
            plain = replace(offer, strategy=Full.name, include=(), exclude=(), packs=False)
            offer = replace(plain, before=tokens, after=tokens)
    return offer if whole else with_context(state, run, (turn, proposal.call), offer, strategy, roster)


def _draft_first(
    state: State, run: Run, proposal: Proposal, receiver: str, tokens: int, roster: Roster
) -> HandoffOffered:
    """An offer that follows no other one of the same call."""
    turn, intent, found, names = proposal.turn, proposal.intent, proposal.call.chosen, roster.names
    # By position where it can be: every transfer passes here, and keywords take three times as long.
    offer = HandoffOffered(
        proposal.id,
        state.task,
        turn.agent,
        receiver,
        intent.message,
        intent.mode,
        intent.variables,
        intent.instructions,
        Full.name,
        intent.merge,
        intent.return_to,
        proposal.dropped,
        intent.about,
        intent.final,
        intent.max_iterations,
        alternatives=found.alternatives if found else intent.alternatives,
        expected=intent.expected or (_inherited(run, intent, receiver) if run.wishes or run.spoken.given else None),
        capability=found.capability if found else "",
        queued=found is not None and found.queued and receiver == found.receiver,
        before=tokens,
        after=tokens,
        reason=intent.reason,
        required=intent.required,
        sender_name=names.get(turn.agent, "") if names else "",
        receiver_name=names.get(receiver, "") if names else "",
        policy=intent.policy,
    )
    if turn.code and run.spoken.package is not None:
        return _from_package(state, run, proposal, offer, roster)
    offer = _with_deadline(state, offer, intent.timeout, roster)
    follows = run.declined and proposal.origin != "branch"
    return _as_retry(state, run, proposal.call, offer) if follows else offer


def _inherited(run: Run, intent: Intent, receiver: str) -> Expected | None:
    """The expectations of a task that is handed on; None if it goes back to the agent that has them."""
    wish = run.wish if intent.mode is TRANSFER else None
    return wish if wish is not None and wish.sender != receiver else None


def _draft_again(
    state: State, run: Run, proposal: Proposal, declined: Declined, step: Step, roster: Roster
) -> HandoffOffered:
    """The declined offer for another receiver, with as much time as the first had."""
    before, receiver = declined.offer, step.receiver
    offer = replace(
        before,
        call=proposal.id,
        receiver=receiver,
        attempt=before.attempt + len(declined.refused) + 1,
        retry_of=handoff_id(state.id, before.call),
        declined_by=(*before.declined_by, before.receiver, *declined.refused),
        deadline=None,
        queued=step.queued and not isinstance(roster.seats.get(receiver), Person),  # a person is asked at once
        brokered=step.brokered,
        needs_context=step.needs_context,
        needs_permission=step.needs_permission,
        receiver_name=roster.names.get(receiver, ""),
    )
    offer = _with_deadline(state, offer, declined.timeout, roster)
    if proposal.turn.code and run.spoken.package is not None:
        return _within(HandoffPackage.from_dict(run.spoken.package), offer)
    return offer


def _with_deadline(state: State, offer: HandoffOffered, timeout: float | None, roster: Roster) -> HandoffOffered:
    """The offer with its deadline. A transfer that is accepted at once has none; the timeout of one that has to be
    claimed begins with the claim."""
    if offer.mode is TRANSFER and not offer.queued:
        seat = roster.seats.get(offer.receiver)
        if type(seat) is not Seat or not seat.asks:
            return offer
    if offer.queued or roster.pulls(offer.receiver):
        return replace(offer, queued=True, timeout=timeout)
    return offer if timeout is None else replace(offer, deadline=state.at + timeout)


def _within(package: HandoffPackage, offer: HandoffOffered) -> HandoffOffered:
    """The offer with a deadline no later than that of its package."""
    due = package.metadata.deadline
    return offer if due is None else replace(offer, deadline=min(due.timestamp(), offer.deadline or inf))


def _from_package(state: State, run: Run, proposal: Proposal, offer: HandoffOffered, roster: Roster) -> HandoffOffered:
    """The offer with the fields of the package that code hands over, and with the receivers found for it."""
    package, found = HandoffPackage.from_dict(run.spoken.package), proposal.call.chosen
    metadata, expects = package.metadata, package.expectations
    offer = _within(package, _with_deadline(state, replace(offer, queued=run.spoken.queued), expects.timeout, roster))
    wanted = expects.output_schema or expects.success_criteria
    template = roster.briefing_for(offer.receiver)
    brief = brief_for(state, run, proposal.turn, offer, roster)
    about = briefed_by(template, brief) if isinstance(template, str) else ""
    return replace(
        offer,
        message=offer.message if offer.mode is DELEGATE else about or offer.message,
        instructions=metadata.instructions,
        about=about if offer.mode is DELEGATE else "",
        max_iterations=metadata.max_iterations or ITERATIONS,
        alternatives=found.alternatives if found else package.context.escalation_path,
        expected=Expected(expects.output_schema, expects.success_criteria) if wanted else None,
        attempt=metadata.attempt,
        priority=metadata.priority,
        capability=found.capability if found else "",
        brokered=found is not None,
        required=metadata.required_capabilities,
    )


def _as_retry(state: State, run: Run, call: OpenCall, offer: HandoffOffered) -> HandoffOffered:
    """The offer as the next attempt after a declined one of the same task, unless one reply asked for both."""
    before = run.declined.get(way_of(offer.mode, call))
    if before is None or before.task != state.task:
        return offer
    if reply_of(split_handoff(before.handoff)[1]) == reply_of(offer.call):
        return offer
    return replace(offer, attempt=before.attempt + 1, retry_of=before.handoff, declined_by=before.by)


def _strategy(state: State, run: Run, proposal: Proposal, receiver: str, roster: Roster) -> ContextStrategy:
    """The strategy that decides how much of the sender's context the receiver gets."""
    sender, mode = state.agent, proposal.intent.mode
    if proposal.declined is not None:
        before = proposal.declined.offer
        # A sender that gets its own task back does not start afresh.
        sender, receiver = before.sender, before.receiver if receiver == before.sender else receiver
    strategy = roster.strategy_for(sender, receiver, mode, proposal.move, run.id)
    if roster.trials:
        strategy = strategy_variant(state, receiver, strategy, roster)
    if strategy.made and not state.chapters:
        strategy = strategy.for_size(state.scale.weigh(state.thread))
    return strategy
