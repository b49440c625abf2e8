"""What a receiver gets of the sender's context: the strategy, what has to be made, and the briefing of a delegate."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.agent.agent import Agent, purpose
from changeover.agent.moves import TRANSFERS
from changeover.agent.roster import Roster, Seat
from changeover.facts import Mode
from changeover.handoffs.briefing import Brief, brief_of, briefed_by
from changeover.handoffs.context import last_messages, merge_variables, select_messages, select_variables
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import ContextStrategy, Handover
from changeover.handoffs.tokens import count, weight
from changeover.ids import Mark, command_id
from changeover.messages import Message, Note, ToolResult, User
from changeover.relay.commands import PackContext
from changeover.relay.decide.variants import strategy_variant
from changeover.relay.events import HandoffOffered
from changeover.relay.fold.handoffs import said_before, view_of
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated, Offered, OpenCall, Turn


def with_context(
    state: State,
    run: Run,
    asker: tuple[Turn, OpenCall],
    offer: HandoffOffered,
    strategy: ContextStrategy,
    roster: Roster,
) -> HandoffOffered:
    """The offer with what its strategy shows of the sender's context, and its weight unless that has to be made."""
    turn, call = asker
    seat = roster.seats.get(offer.receiver)
    briefs = offer.mode is Mode.DELEGATE or (turn.code and run.spoken.package is not None)
    made = strategy.made or (briefs and not isinstance(roster.briefing_for(offer.receiver), str))
    offer = replace(
        offer,
        strategy=strategy.logged_as,
        recent=strategy.recent,
        include=tuple(strategy.include),
        exclude=tuple(strategy.exclude),
        packs=made and isinstance(seat, Seat),
        before=state.scale.weigh(state.thread),
    )
    return offer if offer.packs else replace(offer, after=_weight(state, run, turn, call, offer, roster))


def _weight(state: State, run: Run, turn: Turn, call: OpenCall, offer: HandoffOffered, roster: Roster) -> int:
    """How many tokens the receiver gets of what was said."""
    if offer.mode is Mode.DELEGATE:
        text = briefing_of(state, run, turn, Delegated(offer, 0), roster)
        return count(text) + count(task_of(run, offer))
    if offer.is_whole:
        return offer.before
    return weight(*view_of(offer, None, run.spoken, said_before(state.thread, turn, call)))


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
    strategy = roster.strategy_for(offer.sender, offer.receiver, offer.mode, call.call.name)
    if roster.trials:
        strategy = strategy_variant(state, offer.receiver, strategy, roster)
    brief = _brief(state, run, turn, offer)
    if not strategy.made and not turn.code:
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
    end, most = len(state.thread) - (0 if turn.quiet else 1), offer.shown
    # No more of the thread than is needed: a delegate must cost the same however long a conversation is.
    first = 0 if most < 0 or offer.include or offer.exclude else max(0, end - 2 * most)
    before = [each for each in state.thread[first:end] if _tells(each, run, roster)]
    return last_messages(select_messages(before, offer.include, offer.exclude), most)


def _tells(message: Message, run: Run, roster: Roster) -> bool:
    """Whether a message says more than the request, or that somebody handed over."""
    if isinstance(message, User):
        return message.text != run.spoken.text
    if isinstance(message, Note) and run.spoken.given:
        return message.text != run.spoken.given.briefing  # what one was told oneself, one does not pass on whole
    passed = isinstance(message, ToolResult) and roster.move_of(message.agent, message.name)
    return not isinstance(passed, TRANSFERS)
