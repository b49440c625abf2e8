"""What an offer says: its deadline, its predecessor, its experiment variant, and the context that travels with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec.structs import replace

from changeover.agent.agent import Agent, purpose
from changeover.agent.moves import DelegateTo, Transfer, TransferToAny
from changeover.agent.roster import Roster, Seat, Trial
from changeover.facts import Expected, Mode
from changeover.handoffs.briefing import Brief, brief_of, briefed_by
from changeover.handoffs.context import merge_variables, select_messages, select_variables
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import BUILT_IN, PURE, Full, Handover, Strategy, name_of, recent_of
from changeover.handoffs.tokens import count, weight
from changeover.ids import Mark, command_id, reply_of, split_handoff
from changeover.messages import Message, Note, ToolResult, User
from changeover.relay.commands import CallModel, Command, PackContext, Record, RunChild
from changeover.relay.events import HandoffOffered, ReceiverChosen, UserSpoke, VariantChosen
from changeover.relay.fold.handoffs import is_whole, last_of, said_before, shown_by, view_of
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated, Offered, OpenCall, Turn, way_of


def until(state: State, offer: HandoffOffered, timeout: float | None, roster: Roster) -> HandoffOffered:
    """The offer with its deadline. A transfer has none if it is accepted in the moment in which it is offered; what has
    to be claimed has all its time from then on."""
    if offer.queued or roster.pulls(offer.receiver):
        return replace(offer, queued=True, timeout=timeout)
    if timeout is None:
        return offer
    if offer.mode is Mode.TRANSFER:
        seat = roster.seats.get(offer.receiver)
        if type(seat) is not Seat or not seat.asks:
            return offer
    return replace(offer, deadline=state.at + timeout)


def within(package: HandoffPackage, offer: HandoffOffered) -> HandoffOffered:
    """The offer, with no more time than its package has."""
    due = package.metadata.deadline
    return offer if due is None else replace(offer, deadline=min(due.timestamp(), offer.deadline or inf))


def packed(
    state: State, offer: HandoffOffered, spoken: UserSpoke, found: ReceiverChosen | None, roster: Roster
) -> HandoffOffered:
    """The offer with what the package says that code hands over, and with who was found for it."""
    package = HandoffPackage.from_dict(spoken.package)
    metadata, expects = package.metadata, package.expectations
    offer = within(package, until(state, replace(offer, queued=spoken.queued), expects.timeout, roster))
    wanted = expects.output_schema or expects.success_criteria
    template = roster.briefing_for(offer.receiver)
    about = briefed_by(template, brief_of(package)) if isinstance(template, str) else ""
    return replace(
        offer,
        message=offer.message if offer.mode is Mode.DELEGATE else about or offer.message,
        instructions=metadata.instructions,
        about=about if offer.mode is Mode.DELEGATE else "",
        max_iterations=metadata.max_iterations or 0,
        alternatives=found.alternatives if found else package.context.escalation_path,
        expected=Expected(expects.output_schema, expects.success_criteria) if wanted else None,
        attempt=metadata.attempt,
        priority=metadata.priority,
        capability=found.capability if found else "",
        brokered=found is not None,
    )


def following(state: State, run: Run, call: OpenCall, offer: HandoffOffered) -> HandoffOffered:
    """The offer as the next try after one that nobody took, if there was one; not if both were asked for in one reply,
    when nobody could know of it."""
    before = run.declined.get(way_of(offer.mode, call))
    if before is None or before.task != state.task or _reply(before.handoff) == reply_of(offer.call):
        return offer
    return replace(offer, attempt=before.attempt + 1, retry_of=before.handoff, declined_by=before.by)


def _reply(handoff: str) -> str:
    """Where the reply stands that asked for a handoff."""
    return reply_of(split_handoff(handoff)[1])


def told_first(state: State, decision: Record | Sequence[Command], roster: Roster) -> Record | Sequence[Command]:
    """The decision; or, if a variant matters for it that nobody has recorded, that this one is chosen."""
    for subject, agent in _concerned(decision):
        trial = roster.trials.get((subject, agent))
        if trial is not None and trial.name not in state.variants:
            return _chosen(state, trial, agent)
    return decision


def strategy_in(state: State, receiver: str, otherwise: Strategy, roster: Roster) -> Strategy:
    """How much a receiver sees here, if that is tried out; else what is so otherwise."""
    trial = roster.trials.get(("strategy", receiver)) if roster.trials else None
    if trial is None:
        return otherwise
    # A variant that is recorded may have been given up since.
    found: Strategy = trial.variants.get(trial.chosen(state.root, state.variants), otherwise)
    return found


def receiver_in(state: State, sender: str, wanted: str, roster: Roster) -> str | Record:
    """Who is handed to here in place of whoever is wanted; or which variant that follows, which is recorded first."""
    trial = roster.trials.get(("receiver", wanted)) if roster.trials else None
    if trial is None or sender in trial.variants.values():
        return wanted
    if trial.name not in state.variants:
        return _chosen(state, trial, wanted)
    found = str(trial.variants.get(state.variants[trial.name], wanted))
    return wanted if found in roster.absent else found


def stands_in(agent: str, wanted: str, roster: Roster) -> bool:
    """Whether an agent may have been handed what was meant for the one that is wanted."""
    trial = roster.trials.get(("receiver", wanted)) if roster.trials else None
    return trial is not None and agent in trial.variants.values()


def _concerned(decision: Record | Sequence[Command]) -> Iterator[tuple[str, str]]:
    """What may be tried out in what is done next, and of whom."""
    if isinstance(decision, Record):
        if type(offer := decision.event) is HandoffOffered:
            yield "strategy", offer.receiver
        return
    for command in decision:
        # A delegate's is chosen before it begins: so all who work for this conversation have the same.
        if isinstance(command, CallModel | RunChild):
            agent = command.context.agent if isinstance(command, CallModel) else command.receiver
            yield "instructions", agent
            yield "model", agent


def _chosen(state: State, trial: Trial, agent: str) -> Record:
    return Record(VariantChosen(trial.name, trial.choose(state.root), state.task, agent))


Asker = tuple[Turn, OpenCall]
"""The call that hands over, in its turn."""


def travelling(
    state: State, run: Run, asker: Asker, offer: HandoffOffered, strategy: Strategy, roster: Roster
) -> HandoffOffered:
    """The offer with what its receiver gets of the sender's context, in tokens too, unless that has to be made."""
    turn, call = asker
    before = state.scale.weigh(state.thread)
    selected = type(strategy) is not Full or strategy.include or strategy.exclude
    if not (selected or offer.mode is Mode.DELEGATE or turn.code):
        # Most are like this, and should cost little; what is offered again may have had another strategy.
        plain = offer if is_whole(offer) else replace(offer, strategy=Full.name, include=(), exclude=(), packs=False)
        return replace(plain, before=before, after=before)
    include, exclude = _selectors(strategy)
    seat = roster.seats.get(offer.receiver)
    briefs = offer.mode is Mode.DELEGATE or (turn.code and run.spoken.package is not None)
    made = not isinstance(strategy, PURE) or (briefs and not isinstance(roster.briefing_for(offer.receiver), str))
    offer = replace(
        offer,
        strategy=name_of(strategy),
        recent=recent_of(strategy),
        include=include,
        exclude=exclude,
        packs=made and isinstance(seat, Seat),
        before=before,
    )
    return offer if offer.packs else replace(offer, after=_weight(state, run, turn, call, offer, roster))


def _selectors(strategy: Strategy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (tuple(strategy.include), tuple(strategy.exclude)) if isinstance(strategy, BUILT_IN) else ((), ())


def _weight(state: State, run: Run, turn: Turn, call: OpenCall, offer: HandoffOffered, roster: Roster) -> int:
    """How many tokens the receiver gets of what was said."""
    if offer.mode is Mode.DELEGATE:
        text = briefing_of(state, run, turn, Delegated(offer, 0), roster)
        return count(text) + count(task_of(run, offer))
    if is_whole(offer):
        return offer.before
    return weight(*view_of(offer, None, run.spoken, said_before(state.thread, turn, call)))


def strategy_of(state: State, offer: HandoffOffered, receiver: str, tool: str, roster: Roster) -> Strategy:
    """How much a receiver sees: what is tried here, else as the handoff's declaration says, else as is that receiver's
    custom."""
    return strategy_in(state, receiver, _declared(offer, receiver, tool, roster), roster)


def _declared(offer: HandoffOffered, receiver: str, tool: str, roster: Roster) -> Strategy:
    move = roster.move_of(offer.sender, tool)
    if isinstance(move, DelegateTo):
        return roster.delegate_strategy(receiver, move.delegate.strategy)
    if offer.mode is Mode.DELEGATE:
        return roster.delegate_strategy(receiver, None)
    return roster.strategy_for(offer.sender, receiver, move.handoff.strategy if isinstance(move, Transfer) else None)


def pack(state: State, run: Run, turn: Turn, call: OpenCall, phase: Offered, roster: Roster) -> PackContext:
    """Make what the receiver gets, of what was said since the last chapter."""
    offer = phase.offer
    covered = len(state.thread) - (0 if turn.quiet else 1)  # without the reply that hands over
    said = said_before(state.thread, turn, call) if offer.mode is Mode.TRANSFER else state.thread[:covered]
    news = said[state.covered :]
    if offer.mode is Mode.TRANSFER and offer.message and not (news and news[-1].text == offer.message):
        news = [*news, Note(offer.message, offer.sender)]  # those who come later are told of it too
    variables = merge_variables(state.variables, offer.variables, offer.merge)
    seat = roster.seats.get(offer.receiver)
    agent = seat.agent if isinstance(seat, Seat) else None
    strategy, brief = strategy_of(state, offer, offer.receiver, call.call.name, roster), _brief(state, run, turn, offer)
    if isinstance(strategy, PURE) and not turn.code:
        brief = replace(brief, recent_messages=_recent(state, run, turn, offer, roster))
    return PackContext(
        command_id(offer.call, Mark.PACK),
        state.task,
        state.id,
        offer,
        strategy,
        Handover(
            sender=offer.sender,
            receiver=offer.receiver,
            purpose=purpose(agent) if agent else "",
            capabilities=tuple(agent.capabilities) if isinstance(agent, Agent) else (),
            message=offer.message,
            request=run.spoken.text,
            messages=select_messages(news, offer.include, offer.exclude),
            chapters=state.chapters,
            variables=select_variables(variables, offer.include, offer.exclude),
            artifacts=state.artifacts,
            workflow_state=state.workflow_state,
        ),
        brief,
        roster.briefing_for(offer.receiver),
        covered,
        state.summaries,
        _weight(state, run, turn, call, offer, roster),
    )


def briefing_of(state: State, run: Run, turn: Turn, phase: Delegated, roster: Roster) -> str:
    """What a delegate is told beside its task; the same whenever it is asked for, until its turn ends."""
    offer, packed = phase.offer, phase.packed
    if packed is not None and packed.briefing:
        return packed.briefing
    if turn.code:
        return offer.about  # the package says all
    template = roster.briefing_for(offer.receiver)
    brief = replace(_brief(state, run, turn, offer), recent_messages=_recent(state, run, turn, offer, roster))
    return briefed_by(template if isinstance(template, str) else roster.template, brief)


def task_of(run: Run, offer: HandoffOffered) -> str:
    """What a delegate is asked to do."""
    return offer.message or run.spoken.text


def _brief(state: State, run: Run, turn: Turn, offer: HandoffOffered) -> Brief:
    """All that is known about the task, but for what was said."""
    if turn.code and run.spoken.package is not None:
        return brief_of(HandoffPackage.from_dict(run.spoken.package))
    if offer.mode is Mode.TRANSFER:
        return Brief(your_task=offer.message)  # beside it, the receiver reads what the user said
    request = "" if task_of(run, offer) == run.spoken.text else run.spoken.text  # else it reads that next
    return Brief(
        original_request=request,
        why_you=offer.reason,
        required_capabilities=offer.required,
        key_information=offer.about,
    )


def _recent(state: State, run: Run, turn: Turn, offer: HandoffOffered, roster: Roster) -> list[Message]:
    """The last messages, without what the receiver is told anyway."""
    # Without the reply that delegates: what it says to this receiver is the task.
    end, most = len(state.thread) - (0 if turn.quiet else 1), shown_by(offer)
    # No more of the thread than is needed: a delegate must cost the same however long a conversation is.
    first = 0 if most < 0 or offer.include or offer.exclude else max(0, end - 2 * most)
    before = [each for each in state.thread[first:end] if _tells(each, run, roster)]
    return last_of(select_messages(before, offer.include, offer.exclude), most)


def _tells(message: Message, run: Run, roster: Roster) -> bool:
    """Whether a message says more than the request, or that somebody handed over."""
    if isinstance(message, User):
        return message.text != run.spoken.text
    if isinstance(message, Note) and run.spoken.given:
        return message.text != run.spoken.given.briefing  # what one was told oneself, one does not pass on whole
    passed = isinstance(message, ToolResult) and roster.move_of(message.agent, message.name)
    return not isinstance(passed, Transfer | TransferToAny)
