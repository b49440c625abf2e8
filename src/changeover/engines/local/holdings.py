"""Holdings: the tickets that this process holds a claim on, and which commands it may perform because of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set

from msgspec.structs import replace

from changeover.engines.local.conversation import Conversation
from changeover.facts import Ticket
from changeover.relay.commands import AskReceiver, AwaitClaim, Command
from changeover.relay.inputs.claims import End
from changeover.relay.ports.log import Head
from changeover.relay.ports.queue import Claim, Taken
from changeover.relay.state import State
from changeover.relay.tickets import open_tickets, resting, ticket_of


class Held:
    """A ticket that this process works on."""

    def __init__(self, taken: Taken) -> None:
        self.ticket: Ticket = taken.ticket
        self.claim: Claim = taken.claim
        self.over: asyncio.Future[End] = asyncio.get_running_loop().create_future()


class Holdings:
    """The tickets that are held here, by id."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def hold(self, held: Held) -> None:
        """Hold a ticket. An earlier claim on it ends: it ran out before the ticket could be claimed again."""
        self.end([held.ticket.id], End.LOST)
        self._held[held.ticket.id] = held

    def end(self, tickets: Iterable[str], end: End) -> None:
        """Stop holding these tickets, as far as they are held."""
        for ticket in tickets:
            if (held := self._held.pop(ticket, None)) and not held.over.done():
                held.over.set_result(end)

    def claim_for(self, state: State) -> Claim | None:
        """The claim under which this process appends to a conversation, if it works there under one."""
        held = self._held.get(state.run.ticket) if self._held and state.run else None
        return held.claim if held else None

    def localized(self, state: State, commands: Sequence[Command]) -> Sequence[Command]:
        """The commands as this process performs them: a wait in place of each whose ticket is not held here."""
        return [self._localized(state, command) for command in commands]

    def _localized(self, state: State, command: Command) -> Command:
        ticket = ticket_of(state, command)
        # A worker answers the offer of a ticket that it claimed before the ticket counts as held for work.
        held = ticket is not None and ticket.id in self._held and not isinstance(command, AskReceiver)
        return command if ticket is None or held else AwaitClaim(command.id, state.task, ticket)

    def with_tickets(self, head: Head, live: Conversation, commands: Sequence[Command], before: Set[str]) -> Head:
        """The head with the tickets that are open now; `before` were open until now."""
        state, waits = live.state, [command for command in commands if isinstance(command, AwaitClaim)]
        rests = resting(state, [*commands, *live.commands])
        if head.working:
            rests -= self._held.keys()  # its delegates work here, and it goes on as soon as they are done
        wanted = tuple({wait.ticket.id: wait.ticket for wait in waits}.values())
        return replace(head, tickets=wanted, rests=tuple(rests), gone=tuple(before - open_tickets(state)))
