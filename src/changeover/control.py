"""Overseer: control of work under way by approvals, cancellation, rollback, breakers and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from changeover.engines.local import cancellation
from changeover.engines.local.approvals import decide
from changeover.engines.local.cancellation import roll_back
from changeover.engines.local.engine import LocalEngine
from changeover.engines.local.tickets import id_of
from changeover.errors import ApprovalError, ConversationNotFound, MisconfiguredError
from changeover.facts import ApprovalRequest, HandoffRecord, Ticket
from changeover.guards.approval import Decision, decision_fault, is_names
from changeover.guards.breaker import Circuit
from changeover.inputs import check_texts
from changeover.observe.experiment_results import keep
from changeover.observe.metrics import Metrics, Window, measured, window_of
from changeover.relay.events import Entry
from changeover.relay.stream import Recorded, recorded

T = TypeVar("T")


class Overseer(ABC):
    """Sees to what a team has under way; the engine does it."""

    @abstractmethod
    async def on_engine(self, work: Callable[[LocalEngine], Awaitable[T]], /) -> T:
        """Do something with the engine, on the loop on which it lives."""

    async def approvals(self, conversation: str | None = None) -> list[ApprovalRequest]:
        """What waits for a person's decision: in a conversation and its delegates, or in all that the store holds."""
        found = await self.on_engine(lambda engine: engine.log.approvals())
        below = f"{conversation}/"
        return [
            each for each in found if conversation in (None, each.conversation) or each.conversation.startswith(below)
        ]

    async def decide(
        self,
        approval: ApprovalRequest | Ticket | str,
        decision: Decision,
        *,
        by: str = "",
        roles: Sequence[str] = (),
    ) -> None:
        """Decide about a request as it was shown, or by its id; the run goes on from there, in this process.

        Raise ApprovalError if it cannot hold: somebody decided before, what was shown is not what is awaited, or who
        decides has none of the roles that it takes. That these are somebody's roles is for the caller to know.
        """
        if not is_names(roles):
            raise ApprovalError(f"roles={roles!r} is no list of names, such as ['manager']")
        if not isinstance(decision, Decision):
            raise ApprovalError(f"decide by Approve(), Reject(…), Edit(…) or Respond(…), not by {decision!r}")
        if fault := decision_fault(decision):
            raise ApprovalError(fault)
        check_texts(by=by)
        if isinstance(approval, Ticket):
            raise ApprovalError(f"{approval.id} awaits no decision, but a worker of {approval.agent!r}")
        id = approval.id if isinstance(approval, ApprovalRequest) else str(approval)
        if id.count(":") != 2:
            raise ApprovalError(f"{id!r} is no id of an approval; `approvals()` lists what is awaited", approval=id)
        await self.on_engine(lambda engine: decide(engine, id, decision, by, tuple(roles)))

    async def cancel(self, id: Ticket | str, *, by: str = "", reason: str = "") -> bool:
        """End what is under way: of a conversation, a run (`result.run_id`), a handoff (`HandoffRecord.id`) or a
        ticket, with all that works for it. Returns when it has ended; False if nothing was under way."""
        if not isinstance(id, str | Ticket):
            raise MisconfiguredError(f"cancel by the id of a conversation, a run, a handoff or a ticket, not by {id!r}")
        check_texts(by=by, reason=reason)
        return await self.on_engine(lambda engine: cancellation.end(engine, id_of(id), by, reason))

    async def rollback(self, handoff: HandoffRecord | str, *, reason: str = "", by: str = "") -> HandoffRecord:
        """Undo a handoff: its task goes back to its sender, with the reason and what the receiver said last, and its
        `on_rollback` is called until it succeeds. Transfers that followed it are undone with it.

        Raise IllegalTransition if there is nothing to undo: it was rejected, or has come back already.
        """
        id = handoff.id if isinstance(handoff, HandoffRecord) else str(handoff)
        check_texts(reason=reason, by=by)
        return await self.on_engine(lambda engine: roll_back(engine, id, reason, by))

    async def forget(self, conversation: str) -> bool:
        """Remove a conversation with all that is kept of it: its log, its delegates, its handoffs, what can be fetched.
        False if there is none. Raise UnderWay if something in it is; cancel that first."""
        return await self.on_engine(lambda engine: engine.forget(conversation))

    async def breakers(self) -> list[Circuit]:
        """How the receivers of handoffs do that ever failed, as everybody sees it who shares the store."""
        return await self.on_engine(lambda engine: engine.log.breakers.listed())

    async def force_breaker(self, receiver: str) -> None:
        """Leave a receiver alone: nothing is handed to it, by anybody on the store, until it is reset."""
        await self.on_engine(lambda engine: engine.log.breakers.force(receiver, engine.world.clock.now()))

    async def reset_breaker(self, receiver: str) -> bool:
        """Let a receiver have handoffs again at once, as if it had never failed; False if nothing was amiss."""
        return await self.on_engine(lambda engine: engine.log.breakers.reset(receiver, engine.world.clock.now()))

    async def metrics(self, window: Window = None) -> Metrics:
        """How handoffs went, by agent and by pair: in the last so many seconds (or a timedelta), else ever."""
        return await self.on_engine(lambda engine: _measured(engine, window))

    async def measure(self, conversation: str, name: str, value: float) -> None:
        """Note something of a conversation that only you can measure, such as how content somebody was."""
        noted = (name, value)
        await self.on_engine(lambda engine: keep(engine.log.trials, conversation, noted, engine.world.clock.now()))

    async def history(self, conversation: str) -> list[Recorded]:
        """Everything that was recorded of a conversation and its delegates, in order."""
        return list(recorded(await self.on_engine(lambda engine: _tree(engine, conversation))))

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """Every handoff of a conversation and its delegates, in order."""
        return await self.on_engine(lambda engine: engine.log.lists.handoffs(conversation))


async def _tree(engine: LocalEngine, conversation: str) -> list[Entry]:
    entries = await engine.log.lists.tree(conversation)
    if not entries:
        raise ConversationNotFound(conversation)
    return entries


async def _measured(engine: LocalEngine, window: Window) -> Metrics:
    return await measured(engine.log.lists.measures, *window_of(window, engine.world.clock.now()))
