"""The context of a receiver: what its strategy shows, what has to be packed first, and the briefing of a delegate."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.agent.agent import Agent, purpose
from changeover.agent.moves import TRANSFERS
from changeover.agent.roster import Roster, Seat
from changeover.facts import Expected, Mode
from changeover.handoffs.briefing import TEMPLATE, Brief, brief_of, briefed_by
from changeover.handoffs.context import last_messages, merge_variables, select_messages, select_variables
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import ContextStrategy, Full, Handover
from changeover.handoffs.tokens import count, weight
from changeover.ids import Mark, command_id
from changeover.messages import Message, Note, ToolResult, User
from changeover.relay.commands import PackContext
from changeover.relay.decide.variants import strategy_variant
from changeover.relay.events import HandoffOffered
from changeover.relay.fold.handoffs import said_before, task_of, view_of
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
    """The offer with the figures of its strategy, and with the receiver's tokens unless its context has to be made."""
    turn, call = asker
    seat = roster.seats.get(offer.receiver)
    briefs = offer.mode is Mode.DELEGATE or (turn.code and run.spoken.package is not None)
    made = strategy.made or (briefs and not isinstance(roster.briefing_for(offer.receiver), str))
    offer = replace(
        offer,
        after=0,
        strategy=strategy.logged_as,
        recent=strategy.recent,
        include=tuple(strategy.include),
        exclude=tuple(strategy.exclude),
        packs=made and isinstance(seat, Seat),
        before=state.scale.weigh(state.thread),
    )
    if offer.packs:
        return offer
    after, room = _weight(state, run, turn, call, offer, roster), roster.briefing_room(offer.receiver)
    too_long = briefs and isinstance(seat, Seat) and room is not None and after > room
    return replace(offer, packs=True) if too_long else replace(offer, after=after)


def _weight(state: State, run: Run, turn: Turn, call: OpenCall, offer: HandoffOffered, roster: Roster) -> int:
    """Number of tokens that the receiver gets."""
    if offer.mode is Mode.DELEGATE:
        text = briefing_of(state, run, turn, Delegated(offer, 0), roster)
        return count(text) + count(task_of(run, offer))
    if offer.is_whole:
        return offer.before
    return weight(*view_of(offer, None, run.spoken, said_before(state.thread, turn, call)))


def pack(state: State, run: Run, turn: Turn, call: OpenCall, phase: Offered, roster: Roster) -> PackContext:
    """The command that makes the receiver's context of the messages since the last chapter."""
    offer = phase.offer
    covered = len(state.thread) - (0 if turn.quiet else 1)  # without the reply that hands over
    said = said_before(state.thread, turn, call) if offer.mode is Mode.TRANSFER else state.thread[:covered]
    news = said[state.covered :]
    if offer.mode is Mode.TRANSFER and offer.message and not (news and news[-1].text == offer.message):
        news = [*news, Note(offer.message, offer.sender)]  # later receivers are told of it too
    variables = merge_variables(state.variables, offer.variables, offer.merge)
    seat = roster.seats.get(offer.receiver)
    agent = seat.agent if isinstance(seat, Seat) else None
    move = roster.move_of(offer.sender, call.call.name)
    strategy = roster.strategy_for(offer.sender, offer.receiver, offer.mode, move, run.id)
    if roster.trials:
        strategy = strategy_variant(state, offer.receiver, strategy, roster)
    if offer.strategy == Full.name:
        strategy = Full(include=offer.include, exclude=offer.exclude)  # also in place of one for larger contexts
    brief = brief_for(state, run, turn, offer, roster)
    if not strategy.made and not turn.code:
        brief = replace(brief, recent_messages=_recent(state, run, turn, offer, strategy.recent, roster))
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
        roster.briefing_room(offer.receiver),
    )


def briefing_of(state: State, run: Run, turn: Turn, phase: Delegated, roster: Roster) -> str:
    """The text that a delegate is told beside its task; it stays the same until the turn ends."""
    offer, packed = phase.offer, phase.packed
    if packed is not None and packed.briefing:
        return packed.briefing
    if turn.code or turn.flow is not None:
        return offer.about  # the package, or the input of the step, is the whole context
    template = roster.briefing_for(offer.receiver)
    brief = brief_for(state, run, turn, offer, roster)
    brief = replace(brief, recent_messages=_recent(state, run, turn, offer, offer.shown, roster))
    return briefed_by(template if isinstance(template, str) else roster.template, brief)


def brief_for(state: State, run: Run, turn: Turn, offer: HandoffOffered, roster: Roster) -> Brief:
    """The brief of a task without messages."""
    brief = _brief(run, turn, offer, roster)
    if not turn.code and roster.briefing_for(offer.receiver) == TEMPLATE:
        return brief  # between agents, the default template does not mention the time and tokens that are left
    limits = run.limits or roster.limits
    times = [
        # The deadline of a transfer is for its acceptance; that of a delegate is for its return.
        *([offer.deadline - state.at] if offer.deadline is not None and offer.mode is Mode.DELEGATE else ()),
        *([offer.timeout] if offer.timeout is not None else ()),  # begins with the claim
        *([limits.timeout - (state.at - run.at)] if limits.timeout is not None else ()),
    ]
    tokens = None if limits.max_tokens is None else max(0, limits.max_tokens - run.tokens)
    return replace(brief, time_left=max(0.0, min(times)) if times else None, tokens_left=tokens)


def _brief(run: Run, turn: Turn, offer: HandoffOffered, roster: Roster) -> Brief:
    if turn.code and run.spoken.package is not None:
        return brief_of(HandoffPackage.from_dict(run.spoken.package))
    task, request, expected = task_of(run, offer), run.spoken.text, Expected()
    if roster.briefing_for(offer.receiver) != TEMPLATE:
        # The default template leaves these to the receiver's instructions; another says where it wants them.
        expected = offer.expected or expected
    elif offer.mode is Mode.DELEGATE:
        task = ""  # the default template leaves it to the next message
    brief = Brief(your_task=task, expected_output=expected.schema, success_criteria=expected.criteria)
    if offer.mode is Mode.TRANSFER:
        return replace(brief, your_task=offer.message)  # the receiver reads the user's request beside it
    return replace(
        brief,
        original_request="" if task_of(run, offer) == request else request,  # a request that is the task is read once
        why_you=offer.reason,
        required_capabilities=offer.required,
        key_information=offer.about,
    )


def _recent(state: State, run: Run, turn: Turn, offer: HandoffOffered, shown: int, roster: Roster) -> list[Message]:
    """The last `shown` messages for a brief, without those that the brief holds already; all if negative."""
    # Without the reply that delegates: its words for this receiver are the task.
    end = len(state.thread) - (0 if turn.quiet else 1)
    # Only the end of the thread: the cost of a delegate must not grow with the conversation.
    first = 0 if shown < 0 or offer.include or offer.exclude else max(0, end - 2 * shown)
    before = [each for each in state.thread[first:end] if _is_informative(each, run, roster)]
    return last_messages(select_messages(before, offer.include, offer.exclude), shown)


def _is_informative(message: Message, run: Run, roster: Roster) -> bool:
    """True if a message holds more than the request, the sender's own briefing, or the result of a transfer."""
    if isinstance(message, User):
        return message.text != run.spoken.text
    if isinstance(message, Note) and run.spoken.given:
        return message.text != run.spoken.given.briefing
    move = isinstance(message, ToolResult) and roster.move_of(message.agent, message.name)
    return not isinstance(move, TRANSFERS)
