"""Claims: taking tickets, answering and working under a claim, and giving tickets back."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.local.conversation import Conversation
from changeover.engines.local.holdings import Held
from changeover.errors import UNREADABLE, ClaimLost, EngineError, ExpectationError
from changeover.facts import Mode, Ticket
from changeover.handoffs.answers import Accepted, Answer
from changeover.handoffs.package import HandoffPackage
from changeover.ids import claim_cause, claim_token, split_handoff
from changeover.relay.commands import AskReceiver, AwaitClaim, Command
from changeover.relay.decide.answers import question
from changeover.relay.decide.delegates import run_child
from changeover.relay.events import (
    ENGINE,
    Event,
    HandoffAccepted,
    HandoffExpired,
    ResultJudged,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.inputs.claims import (
    ENDED,
    Accept,
    AnswerOffer,
    End,
    Finish,
    GiveBack,
    NoteTicket,
    answer_by,
    leg_of,
    offer_in,
    package_again,
    refused,
    signed,
)
from changeover.relay.package import package_of
from changeover.relay.perform.handoffs import judge_result
from changeover.relay.ports.queue import Claim, Take, Taken
from changeover.relay.sanitize import text_of
from changeover.relay.tickets import ticket_of
from changeover.relay.turn import Delegated

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

logger = logging.getLogger("changeover.engine")


UNANSWERED = "it did not answer in time"


class Alarms:
    """End offers whose tickets callers claimed here and do not answer in time. If this process dies, the lease of the
    claim runs out, and the time of the next claim begins anew."""

    def __init__(self, dispatcher: Dispatcher, claims: Claims) -> None:
        self._dispatcher, self._claims = dispatcher, claims
        self._set: dict[Claim, asyncio.Task[None]] = {}

    def set(self, taken: Taken, asked: AskReceiver) -> None:
        """Set the alarm of a claim, if its time ends before the deadline of the offer, for which the sender waits."""
        until = answer_by(asked, taken)
        if until is not None and until != asked.deadline:
            self._set[taken.claim] = self._dispatcher.begin(self._expire(taken, asked, until))

    def stop(self, taken: Taken) -> None:
        """Stop the alarm of a claim: its holder has answered, or has lost it."""
        if alarm := self._set.pop(taken.claim, None):
            alarm.cancel()

    async def _expire(self, taken: Taken, asked: AskReceiver, until: float) -> None:
        await self._dispatcher.directory.world.clock.alarm(until)
        self._set.pop(taken.claim, None)
        late = HandoffExpired(asked.offer.call, asked.task, asked.offer.receiver, UNANSWERED, by=ENGINE)
        try:
            await self._claims.answer(AnswerOffer(taken, late))
        except ClaimLost:
            pass  # it is over, or another worker has it
        except EngineError as error:
            logger.warning("%s was not answered in time, which cannot be recorded: %s", taken.ticket.id, error)


class Claims:
    """Carries out what workers do with tickets."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._log, self._conversations = dispatcher.log, dispatcher.conversations
        self._directory, self._holdings = dispatcher.directory, dispatcher.waits.holdings
        self._lapses, self._alarms = dispatcher.lapses, Alarms(dispatcher, self)

    async def take(self, agents: Sequence[str], by: str, lease: float, limit: int) -> list[Taken]:
        """Claim the most urgent tickets; if fewer than `limit` wait, look for claims that lapsed."""
        world, token = self._directory.world, claim_token(text_of(by), os.urandom(6).hex())
        attempts, team = world.roster.attempts, world.roster.team
        take = Take(agents, token, lease, limit, attempts, world.clock.now(), team)
        taken = [replace(each, at=take.now) for each in await self._log.queue.take(take)]
        async with self.returned_unless_kept(taken):
            for ticket in (each.ticket for each in taken if each.attempt > 1):
                with suppress(*UNREADABLE):  # left to a newer version
                    await self._lapses.record(ticket)
            if len(taken) < limit:
                await self._lapses.sweep()
        if taken:
            self._lapses.watch(lease)
        return taken

    @asynccontextmanager
    async def returned_unless_kept(self, all_taken: Sequence[Taken]) -> AsyncIterator[None]:
        """Give tickets back uncounted if the caller is cancelled or fails before it gets them."""
        try:
            yield
        except BaseException:
            backs = (self._log.queue.give_back(each.claim, counted=False) for each in all_taken)
            await asyncio.gather(*backs, return_exceptions=True)  # the lease frees what cannot be given back
            raise

    async def package(self, taken: Taken) -> Callable[[], HandoffPackage]:
        """A function that builds the package of a ticket; raises ClaimLost if nothing is left to do."""
        ticket = taken.ticket
        if (asked := await self.offer(ticket)) is not None:
            self._alarms.set(taken, asked)
            return partial(package_of, asked)
        await self.begin_delegate(ticket)
        live = await self._conversations.get(ticket.place)
        async with live.lock:
            await self._conversations.ensure_readable(live)
            if not live.state.run or live.state.run.ticket != ticket.id:
                await self._conversations.refresh(live)
            package = package_again(await self._log.read(ticket.conversation), ticket, live.state)
        return lambda: package

    async def put(self, input: Accept | AnswerOffer | Finish | GiveBack) -> Event | None:
        """Record what the holder of a claim says; raises ClaimLost if the claim does not hold, and IllegalTransition if
        it holds, but the state of the task does not allow that."""
        self._alarms.stop(input.taken)
        match input:
            case AnswerOffer():
                await self._ensure_allowed(input)
                return await self.answer(input)
            case Finish():
                return await self._finish(input)
            case Accept():
                await self._accept(input)
                self._lapses.forget(input.taken.ticket.id)
            case GiveBack():
                await self._give_back(input)
        return None

    async def _accept(self, accept: Accept) -> None:
        if await self.offer(accept.taken.ticket) is not None:
            await self.answer(AnswerOffer(accept.taken, accept.answer, accept.by))
        elif not accept.again:
            await self._resume(accept.taken, accept.by)
        elif not await self._holds(accept.taken):
            raise ClaimLost(accept.taken.ticket.id)

    async def _ensure_allowed(self, answer: AnswerOffer) -> None:
        """Raise IllegalTransition if the task was accepted before, and the claim holds."""
        accepted = isinstance(answer.answer, Answer) and await self.offer(answer.taken.ticket) is None
        if accepted and await self._holds(answer.taken):
            assert isinstance(answer.answer, Answer)
            raise refused(answer.answer)

    async def _holds(self, taken: Taken) -> bool:
        """True if a claim holds, without renewing it."""
        queued = await self._log.queue.tickets(taken.ticket.id)
        return any(each.owner == taken.token for each in queued)

    async def answer(self, answer: AnswerOffer) -> Event:
        """Record the answer to an offer; an accepted delegate's conversation is opened."""
        ticket = answer.taken.ticket
        async with self._at(ticket.conversation, ticket) as live:
            event = await self._dispatcher.recorder.put(live, answer)
        if isinstance(event, HandoffAccepted) and event.mode is Mode.DELEGATE:
            await self._open_delegate(live, ticket)
        return _in_time(event, ticket)

    async def _finish(self, finish: Finish) -> Event:
        """Record the result. A delegate that is still offered accepts first, and its conversation is opened. A result
        that is not what was expected is recorded as such, and raises ExpectationError."""
        ticket = finish.taken.ticket
        if ticket.place != ticket.conversation and await self.offer(ticket) is not None:
            await self.answer(AnswerOffer(finish.taken, Accepted(), finish.by))
        judged = await self._judged(finish)
        async with self._at(ticket.place, ticket) as live:
            event = await self._dispatcher.recorder.put(live, replace(finish, judged=judged))
        if live.state.root != live.state.id:
            await self._dispatcher.go_on_with(live.state.root)
        if judged is not None and judged.problem and not isinstance(event, HandoffExpired):
            raise ExpectationError(ticket.agent, judged.problem)
        return _in_time(event, ticket)

    async def _judged(self, finish: Finish) -> ResultJudged | None:
        """The outcome of the check of a result; None if nothing is expected of it."""
        live = await self._conversations.get(finish.conversation)
        async with live.lock:
            await self._conversations.refresh(live)
            await self._conversations.ensure_readable(live)
            check = finish.check(live.state)
        return await judge_result(self._directory.world, check) if check is not None else None

    async def _give_back(self, give: GiveBack) -> None:
        ticket, claim = give.taken.ticket, give.taken.claim
        if await self.offer(ticket) is not None:
            if not await self._log.queue.give_back(claim, counted=False):
                raise ClaimLost(ticket.id)
            return
        lapsed = TicketLapsed(ticket.id, give.reason or "given back", give.by)
        await self._note(ticket, claim_cause("back", give.taken.token), lapsed, replace(claim, ends=True))

    async def _resume(self, taken: Taken, by: str, held: Held | None = None) -> None:
        """Record that a worker goes on with an accepted task; with `held`, this engine performs the work from now."""
        ticket = taken.ticket
        await self.begin_delegate(ticket)
        taking = TicketTaken(ticket.id, by)
        await self._note(ticket, claim_cause("taken", taken.token), taking, taken.claim, held)

    async def _note(
        self,
        ticket: Ticket,
        cause: str,
        event: Event,
        claim: Claim,
        held: Held | None = None,
    ) -> None:
        """Record an event where the agent works and, for a delegate, where its sender waits."""
        places = [ticket.place, ticket.conversation]
        shown: Claim | None = claim
        if not claim.ends:
            places.reverse()  # the sender first: then nothing waits for it when the work begins
        for conversation in dict.fromkeys(places):
            async with self._at(conversation, ticket) as live:
                await self._conversations.refresh(live)
                if conversation == ticket.place:
                    leg_of(live.state, ticket)
                    if held is not None:
                        self._holdings.hold(held)  # not before: a task that goes on meanwhile must not begin the work
                note = NoteTicket(conversation, cause, event, shown)
                await self._dispatcher.recorder.put(live, note, fresh=True)
            shown = None if claim.ends else claim

    async def begin_delegate(self, ticket: Ticket) -> None:
        """Open a delegate's conversation if the worker that accepted its task died before it could."""
        if ticket.place != ticket.conversation and not (await self._conversations.get(ticket.place)).state.position:
            await self._open_delegate(await self._conversations.get(ticket.conversation), ticket)

    async def _open_delegate(self, live: Conversation, ticket: Ticket) -> None:
        async with live.lock:
            await self._conversations.refresh(live)
            run = live.state.run
            found = run.find(split_handoff(ticket.id)[1], Delegated) if run else None
            if run is None or found is None or not isinstance(phase := found[1].phase, Delegated):
                raise ClaimLost(ticket.id, ENDED)
            command = run_child(live.state, run, *found, phase, self._directory.world_of(live.state).roster)
        child, _ = await self._dispatcher.children.open(live, command)
        await self._dispatcher.notify(child)

    async def offer(self, ticket: Ticket) -> AskReceiver | None:
        """The offer of a ticket as its receiver is asked, if it has no answer yet."""
        live = await self._conversations.get(ticket.conversation)
        async with live.lock:
            await self._conversations.ensure_readable(live)
            if (found := offer_in(live.state, ticket)) is None:
                await self._conversations.refresh(live)
                found = offer_in(live.state, ticket)
            return question(live.state, *found) if found else None

    @asynccontextmanager
    async def _at(self, conversation: str, ticket: Ticket) -> AsyncIterator[Conversation]:
        """The conversation, locked and without its wait for this ticket; if the claim does not hold, it waits again."""
        live = await self._conversations.get(conversation)
        try:
            async with live.lock:
                live.drop(lambda command: isinstance(command, AwaitClaim) and command.ticket.id == ticket.id)
                try:
                    yield live
                except ClaimLost:
                    await self._dispatcher.go_on(live)
                    raise
        finally:
            await self._dispatcher.notify(live)

    async def serve(self, taken: Taken, by: str) -> End:
        """Perform the work of a claimed ticket until it is done, rests, or is lost."""
        held, end = Held(taken), End.DONE
        try:
            if await self._takes(taken, by, held):
                while not held.over.done():
                    live = self._conversations.cached(taken.ticket.place)
                    if live is None or not live.busy:  # its last owner may be about to release it
                        await self._dispatcher.go_on_with(taken.ticket.place)
                    await asyncio.wait([held.over], timeout=self._dispatcher.patience / 4)
                return held.over.result()
        except ClaimLost:
            end = End.LOST
        except EngineError as error:  # its lease runs out, and another worker takes it
            logger.warning("%s cannot be worked on: %s", taken.ticket.id, error)
            end = End.LOST
        self._holdings.end([taken.ticket.id], end)
        return end

    async def _takes(self, taken: Taken, by: str, held: Held) -> bool:
        """Ask the agent, if the task is still offered; True if it works on it now."""
        if (asked := await self.offer(taken.ticket)) is None:
            await self._resume(taken, by, held)
            return True
        self._holdings.hold(held)
        live = await self._conversations.get(taken.ticket.conversation)
        try:
            answer = await self._dispatcher.performer.answer(live, replace(asked, deadline=answer_by(asked, taken)))
            event = answer if isinstance(answer, HandoffExpired) else signed(answer, by)
            await self.answer(AnswerOffer(taken, event))
        finally:
            live.promised.pop(asked.id, None)
        return isinstance(event, HandoffAccepted)

    async def release(self, taken: Taken, by: str, reason: str | None) -> None:
        """Stop serving a ticket, and give it back with a reason; without one, another worker has it already."""
        lost = reason is None
        self._holdings.end([taken.ticket.id], End.LOST if lost else End.BACK)
        await self._stop(taken.ticket)
        if reason is None:
            await self._dispatcher.go_on_with(taken.ticket.place)  # callers here learn how the other worker goes on
            return
        with suppress(ClaimLost):
            await self._give_back(GiveBack(taken, by, reason))

    async def _stop(self, ticket: Ticket) -> None:
        """Cancel the commands of a ticket; release its conversation if nothing else goes on there."""
        if (live := self._conversations.cached(ticket.place)) is None:
            return

        def belongs(command: Command) -> bool:
            found = ticket_of(live.state, command)
            return found is not None and found.id == ticket.id

        async with live.lock:
            live.drop(belongs)
            if not live.flight:
                live.owned = not await self._log.release(live.state.id, live.known)


def _in_time(event: Event, ticket: Ticket) -> Event:
    """The recorded answer; raises ClaimLost if it came after the deadline of the offer."""
    if isinstance(event, HandoffExpired):
        raise ClaimLost(ticket.id, event.reason)
    return event
