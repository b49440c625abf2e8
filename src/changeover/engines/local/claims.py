"""Claims of tickets: taking them, answering, working and concluding under a claim, and giving them back."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from changeover.engines.local.commit import put, readable, say
from changeover.engines.local.conversation import Live
from changeover.engines.local.perform import ask_receiver
from changeover.engines.local.waits import End, Held, drop_waits, stop_working
from changeover.errors import UNREADABLE, ClaimLost, EngineError
from changeover.facts import Mode, Ticket
from changeover.handoffs.package import HandoffPackage
from changeover.relay.commands import AskReceiver
from changeover.relay.decide.answers import question
from changeover.relay.decide.delegates import run_child
from changeover.relay.events import (
    Event,
    FunctionFailed,
    FunctionReturned,
    HandoffAccepted,
    HandoffExpired,
    HandoffRejected,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.fold.calls import find
from changeover.relay.package import package_of, task_of
from changeover.relay.perform.handoffs import Answered
from changeover.relay.queue import Claim, Taken, token_of
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State
from changeover.relay.turn import Delegated, Offered, OpenCall, Turn

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

T = TypeVar("T")
LAPSED = "its worker did not renew its lease"
ENDED = "it has ended, or was taken back"


async def package(engine: LocalEngine, taken: Taken) -> Callable[[], HandoffPackage]:
    """What is to be done, to be made when somebody reads it; raises ClaimLost if it is not to be done any more."""
    ticket = taken.ticket
    asked = await offered(engine, ticket)
    if asked is not None:
        return partial(package_of, asked)
    await _begin(engine, ticket)
    live = await engine.lives.get(ticket.place)
    async with live.lock:
        task = task_of(live.state, await _leg(engine, live, ticket))
    return lambda: task


async def offered(engine: LocalEngine, ticket: Ticket) -> AskReceiver | None:
    """The question that its receiver has to answer first, if that was not answered yet."""
    live = await engine.lives.get(ticket.conversation)
    async with live.lock:
        found = await offer_at(engine, live, ticket)
        return question(live.state, *found) if found else None


async def answer(engine: LocalEngine, taken: Taken, give: Callable[[AskReceiver], Answered | HandoffExpired]) -> None:
    """Record what the receiver says to the offer; where it takes a delegate's task, open its conversation."""
    ticket, claim = taken.ticket, Claim(taken.ticket.id, taken.token)
    async with _at(engine, ticket.conversation, ticket) as live:
        while True:
            if (found := await offer_at(engine, live, ticket)) is None:
                raise ClaimLost(ticket.id, ENDED)
            said = _timed(engine, give(question(live.state, *found)), found[2])
            ends = not isinstance(said, HandoffAccepted)
            if await put(engine, live, f"{found[2].offer.call}^", [said], replace(claim, ends=ends)):
                break
    if isinstance(said, HandoffAccepted) and said.mode is Mode.DELEGATE:
        await _open(engine, live, ticket)
    if isinstance(said, HandoffExpired):
        raise ClaimLost(ticket.id, said.reason)


def _timed(engine: LocalEngine, said: Answered | HandoffExpired, offered: Offered) -> Answered | HandoffExpired:
    """The answer, if it comes before the deadline of the offer; a delegate's time begins with its acceptance."""
    offer, now = offered.offer, engine.world.clock.now()
    if offered.until is not None and now >= offered.until:
        return HandoffExpired(offer.call, offer.task, offer.receiver, "it was not answered before the deadline")
    if not isinstance(said, HandoffAccepted) or said.mode is not Mode.DELEGATE or offer.timeout is None:
        return said
    until = now + offer.timeout
    return replace(said, deadline=until if said.deadline is None else min(until, said.deadline))


async def _begin(engine: LocalEngine, ticket: Ticket) -> None:
    """Open the conversation of a delegate whose task was accepted by somebody who died before they could."""
    if ticket.place != ticket.conversation and not (await engine.lives.get(ticket.place)).state.position:
        await _open(engine, await engine.lives.get(ticket.conversation), ticket)


async def _open(engine: LocalEngine, live: Live, ticket: Ticket) -> None:
    """Begin the conversation of a delegate, unless whoever waits for it has."""
    async with live.lock:
        await engine.lives.refresh(live)
        run = live.state.run
        found = find(run, ticket.id.rpartition(":")[2], Delegated) if run else None
        if run is None or found is None or not isinstance(phase := found[1].phase, Delegated):
            raise ClaimLost(ticket.id, ENDED)
        command = run_child(live.state, run, *found, phase, engine.world.roster)
    child = await engine.lives.get(command.child)
    child.readers = live.readers
    async with child.lock:
        await say(engine, child, command.spoken, "given", command.opening)
    await engine.tell(child)


async def take_up(engine: LocalEngine, taken: Taken, by: str, held: Held | None = None) -> None:
    """Say that somebody works on what an agent owes; if somebody did before, that it fell back. What is `held` this
    engine works on from then on, and not before: whoever takes up the conversation meanwhile must not begin."""
    ticket, taking = taken.ticket, TicketTaken(taken.ticket.id, by)
    await _begin(engine, ticket)
    events: list[Event] = [TicketLapsed(ticket.id, LAPSED), taking] if taken.attempt > 1 else [taking]
    await note(engine, ticket, f"taken:{taken.token}", events, Claim(ticket.id, taken.token), held)


async def note(
    engine: LocalEngine,
    ticket: Ticket,
    cause: str,
    events: Sequence[Event],
    claim: Claim | None = None,
    held: Held | None = None,
) -> None:
    """Record it where the agent works and, of a delegate, where its sender waits; raises ClaimLost if it is over."""
    places = [ticket.place, ticket.conversation]
    if claim is not None and not claim.ends:
        places.reverse()  # its sender first: who is quick has nothing to wait for when work can begin
    for conversation in dict.fromkeys(places):
        async with _at(engine, conversation, ticket) as live:
            await engine.lives.refresh(live)
            if claim is not None and conversation == ticket.place:
                await _leg(engine, live, ticket)
                if held is not None:
                    engine.holdings.hold(held)
            while live.state.run is not None and await engine.log.find(conversation, cause) is None:
                await readable(engine, live)
                if await put(engine, live, cause, events, claim):
                    break
        claim = None if claim is None or claim.ends else claim


async def conclude(engine: LocalEngine, taken: Taken, by: str, give: Callable[[str, int], Event]) -> None:
    """Record what came of it, by `give(agent, task)`, and that it was taken if nobody has said so yet: the conversation
    goes on from there."""
    ticket = taken.ticket
    asked = await offered(engine, ticket)
    if asked is not None and asked.offer.mode is Mode.TRANSFER:
        return await _conclude_at_once(engine, taken, by, give)
    if asked is not None:
        await answer(engine, taken, lambda asked: accepted(asked, by))
    claim = Claim(ticket.id, taken.token, ends=True)
    async with _at(engine, ticket.place, ticket) as live:
        while True:
            phase = (await _leg(engine, live, ticket)).phase
            if not isinstance(phase, Thinking):
                raise ClaimLost(ticket.id, "somebody is at work on it")
            if await put(engine, live, phase.due, [give(live.state.agent, live.state.task)], claim):
                break
    if live.state.root != live.state.id:
        await engine.take_up(live.state.root)
    return None


async def _conclude_at_once(engine: LocalEngine, taken: Taken, by: str, give: Callable[[str, int], Event]) -> None:
    """A transfer that is accepted in the moment in which it is done: one entry says both."""
    ticket, claim = taken.ticket, Claim(taken.ticket.id, taken.token, ends=True)
    async with _at(engine, ticket.conversation, ticket) as live:
        while True:
            if (found := await offer_at(engine, live, ticket)) is None:
                raise ClaimLost(ticket.id, ENDED)
            said = _timed(engine, accepted(question(live.state, *found), by), found[2])
            events: list[Event] = [said]
            if isinstance(said, HandoffAccepted):
                events.append(give(said.receiver, live.state.position))
            if await put(engine, live, f"{said.call}^", events, claim):
                break
    if isinstance(said, HandoffExpired):
        raise ClaimLost(ticket.id, said.reason)


def accepted(asked: AskReceiver, by: str) -> HandoffAccepted:
    """That this worker takes what is offered."""
    offer = asked.offer
    deadline = asked.deadline if offer.mode is Mode.DELEGATE else None
    return HandoffAccepted(offer.call, asked.task, offer.receiver, offer.mode, by, deadline)


async def give_back(engine: LocalEngine, taken: Taken, by: str, reason: str) -> None:
    """Let others take it; raises ClaimLost if they did already."""
    ticket, claim = taken.ticket, Claim(taken.ticket.id, taken.token)
    if await offered(engine, ticket) is not None:
        if not await engine.log.queue.give_back(claim, counted=False):
            raise ClaimLost(ticket.id)
        return
    back = TicketLapsed(ticket.id, reason or "given back", by)
    await note(engine, ticket, f"back:{taken.token}", [back], replace(claim, ends=True))


def returned(text: str, by: str) -> Callable[[str, int], FunctionReturned]:
    return lambda agent, task: FunctionReturned(agent, task, text, by=by)


def failed(reason: str, by: str) -> Callable[[str, int], FunctionFailed]:
    return lambda agent, task: FunctionFailed(agent, task, reason, by)


@asynccontextmanager
async def _at(engine: LocalEngine, conversation: str, ticket: Ticket) -> AsyncIterator[Live]:
    """A conversation, locked, in which nobody waits for this claim any more; if that does not hold, they do again."""
    live = await engine.lives.get(conversation)
    try:
        async with live.lock:
            drop_waits(live, ticket.id)
            try:
                yield live
            except ClaimLost:
                await engine.go_on(live)
                raise
    finally:
        await engine.tell(live)


async def _leg(engine: LocalEngine, live: Live, ticket: Ticket) -> Run:
    """The run in which the agent works on this ticket; raises ClaimLost if there is none."""
    found = await _look(engine, live, lambda state: state.run if state.run and state.run.ticket == ticket.id else None)
    if found is None:
        raise ClaimLost(ticket.id, ENDED)
    return found


async def offer_at(engine: LocalEngine, live: Live, ticket: Ticket) -> tuple[Run, Turn, Offered] | None:
    """The offer that this ticket stands for, if nobody has answered it."""
    call = ticket.id.rpartition(":")[2]

    def offered(state: State) -> tuple[Run, Turn, Offered] | None:
        found: tuple[Turn, OpenCall] | None = find(state.run, call, Offered) if state.run else None
        if found is None or not isinstance(phase := found[1].phase, Offered) or phase.offer.call != call:
            return None
        return (state.run, found[0], phase) if state.run and phase.index < 0 else None

    return await _look(engine, live, offered)


async def _look(engine: LocalEngine, live: Live, find: Callable[[State], T | None]) -> T | None:
    """What is found in a conversation as it is known here or, if it is not, as the log has it. What is known here and
    not so any more is found out when something is appended."""
    await readable(engine, live)
    if (found := find(live.state)) is None:
        await engine.lives.refresh(live)
        found = find(live.state)
    return found


async def take(engine: LocalEngine, agents: Sequence[str], by: str, lease: float, limit: int) -> list[Taken]:
    """Claim what is most urgent."""
    most, token = engine.world.roster.attempts, token_of(by, os.urandom(6).hex())
    taken = await engine.log.queue.take(agents, token, lease, limit, most, engine.world.clock.now())
    if len(taken) < limit:
        async with kept(engine, taken):
            await sweep(engine)
    return taken


@asynccontextmanager
async def kept(engine: LocalEngine, all_taken: Sequence[Taken]) -> AsyncIterator[None]:
    """See that what was taken is not held by nobody: if whoever took it is stopped before they have it, it goes back,
    as if they had never taken it."""
    try:
        yield
    except BaseException:
        backs = (engine.log.queue.give_back(Claim(each.ticket.id, each.token), counted=False) for each in all_taken)
        await asyncio.gather(*backs, return_exceptions=True)  # what cannot be given back, its lease frees
        raise


async def sweep(engine: LocalEngine) -> None:
    """Ask a person about what workers took again and again, and none of them finished."""
    for queued in await engine.log.queue.worn_out(engine.world.roster.attempts):
        reason = f"{queued.attempts} workers took it, and none finished it"
        with suppress(*UNREADABLE):  # perhaps a newer version asks; what else waits must not wait for that
            if not await _decline(engine, queued.ticket, reason):
                await _escalate(engine, queued.ticket, reason)


async def _decline(engine: LocalEngine, ticket: Ticket, reason: str) -> bool:
    """End an offer that nobody answered; False if it was answered."""
    live = await engine.lives.get(ticket.conversation)
    async with live.lock:
        if (found := await offer_at(engine, live, ticket)) is None:
            return False
        offer = found[2].offer
        declined = HandoffRejected(offer.call, live.state.task, offer.receiver, reason, worn_out=True)
        await put(engine, live, f"{offer.call}^", [declined])
    await engine.tell(live)
    return True


async def _escalate(engine: LocalEngine, ticket: Ticket, reason: str) -> None:
    live = await engine.lives.get(ticket.conversation)
    # By where its log ends: several may sweep at once, and one of them says it.
    cause = f"worn:{ticket.id}@{live.state.position}"
    await note(engine, ticket, cause, [TicketLapsed(ticket.id, reason, worn_out=True)])


logger = logging.getLogger("changeover.engine")


async def work(engine: LocalEngine, taken: Taken, by: str) -> End:
    """Do what was claimed, until it is done, waits for somebody else, or is not ours any more."""
    held = Held(taken.ticket, Claim(taken.ticket.id, taken.token))
    try:
        if await _takes(engine, taken, by, held):
            while not held.over.done():
                if not _at_work(engine, held):  # whoever had it before may be about to let go of it
                    await engine.take_up(taken.ticket.place)
                await asyncio.wait([held.over], timeout=engine.patience / 4)
            return held.over.result()
    except ClaimLost:
        end = End.LOST
    except EngineError as error:  # its lease runs out, and somebody takes it once more
        logger.warning("%s cannot be worked on: %s", taken.ticket.id, error)
        end = End.LOST
    else:
        end = End.DONE
    engine.holdings.let_go([taken.ticket.id], end)
    return end


async def _takes(engine: LocalEngine, taken: Taken, by: str, held: Held) -> bool:
    """Whether the agent takes the task, which it may be asked first."""
    asked = await offered(engine, taken.ticket)
    if asked is None:
        await take_up(engine, taken, by, held)
        return True
    engine.holdings.hold(held)
    live = await engine.lives.get(taken.ticket.conversation)
    try:
        said = await ask_receiver(engine, live, asked)
        said = replace(said, by=by) if isinstance(said, HandoffAccepted) else said
        await answer(engine, taken, lambda _: said)
    finally:
        live.promised.pop(asked.id, None)
    return isinstance(said, HandoffAccepted)


def _at_work(engine: LocalEngine, held: Held) -> bool:
    """Whether something goes on here for this ticket."""
    live = engine.lives.here(held.ticket.place)
    return live is not None and bool(live.flight) and not live.asleep


async def give_up(engine: LocalEngine, taken: Taken, by: str, reason: str) -> None:
    """Stop working on it and let others go on, unless they do already."""
    engine.holdings.let_go([taken.ticket.id], End.BACK)
    await stop_working(engine, taken.ticket)
    try:
        await give_back(engine, taken, by, reason)
    except ClaimLost:
        return


async def lose(engine: LocalEngine, taken: Taken) -> None:
    """Stop working on what is somebody else's."""
    engine.holdings.let_go([taken.ticket.id], End.LOST)
    await stop_working(engine, taken.ticket)
    await engine.take_up(taken.ticket.place)  # whoever waits for it here learns how others go on
