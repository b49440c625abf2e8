"""Overseer: the methods of a team that control work under way: approvals, cancellation, rollback, breakers, metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from changeover.errors import ApprovalError, ConversationNotFound, HandoffNotFound, MisconfiguredError
from changeover.facts import ApprovalRequest, HandoffRecord, Ticket
from changeover.faults import Circuit
from changeover.guards.approval import Decision, decision_fault, is_names
from changeover.ids import below, split_request
from changeover.inputs import check_id, check_seq, check_texts
from changeover.observe.experiment_results import keep
from changeover.observe.metrics import Metrics, Window, measured, window_of
from changeover.relay.context_flow import ValueFlow
from changeover.relay.events import Entry
from changeover.relay.history import recorded
from changeover.relay.inputs.claims import HandOn
from changeover.relay.inputs.control import Cancel, Decide, Rename, RollBack
from changeover.relay.ports.engine import Engine
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Clock
from changeover.relay.stream import Recorded

LONGEST_TITLE = 200


class Overseer(ABC):
    """Controls the work of a team. Inputs go to its engine; methods that only read or write the store use the log."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """The engine of the team, for code that is built upon it."""

    @property
    @abstractmethod
    def log(self) -> Log:
        """The log of the team, opened when it is first needed; for code that is built upon it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the team."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock of the team."""

    async def approvals(self, conversation: str | None = None) -> list[ApprovalRequest]:
        """The requests that await a person's decision: of a conversation and its delegates, or of the whole team."""
        check_id(conversation=conversation or "")
        found, prefix = await self.log.approvals(self.name), below(conversation or "")
        return [
            each for each in found if conversation in (None, each.conversation) or each.conversation.startswith(prefix)
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

        `approval` is the request, `decision` is Approve(), Reject(…), Edit(…) or Respond(…), and `by` names the person.
        `roles` are those of the person who decides, as verified by the caller. Raises ApprovalError if the request was
        decided before or the run no longer waits for it, or if the person has none of the roles that it requires.
        """
        if not is_names(roles):
            raise ApprovalError(f"roles={roles!r} is not a list of names, such as ['manager']")
        if not isinstance(decision, Decision):
            raise ApprovalError(f"decide by Approve(), Reject(…), Edit(…) or Respond(…), not by {decision!r}")
        if fault := decision_fault(decision):
            raise ApprovalError(fault)
        check_texts(by=by)
        if isinstance(approval, Ticket):
            raise ApprovalError(f"{approval.id} awaits no decision, but a worker of {approval.agent!r}")
        id = approval.id if isinstance(approval, ApprovalRequest) else approval
        check_id(approval=id)
        if split_request(id) is None:
            raise ApprovalError(f"{id!r} is not the id of an approval; the list of approvals has the ids", approval=id)
        await self.engine.put(Decide(id, decision, by, tuple(roles)))

    async def cancel(self, id: Ticket | str, *, by: str = "", reason: str = "", after_turn: bool = False) -> bool:
        """End what is under way in a conversation, a run (`result.run_id`), a handoff (`HandoffRecord.id`) or a ticket,
        with all delegates. Returns when it has ended; False if nothing was under way.

        `id` is the id of what ends, or a Ticket; `by` and `reason` say who cancels and why, and are recorded.
        With `after_turn=True` the model's turn under way is finished first, with all its calls and their delegates. A
        turn that gives the answer completes the run.
        """
        if not isinstance(id, str | Ticket):
            raise MisconfiguredError(f"cancel by the id of a conversation, a run, a handoff or a ticket, not by {id!r}")
        check_texts(by=by, reason=reason)
        id = id.id if isinstance(id, Ticket) else id
        check_id(id=id)
        return await self.engine.put(Cancel(id, by, reason, after_turn))

    async def rollback(self, handoff: HandoffRecord | str, *, reason: str = "", by: str = "") -> HandoffRecord:
        """Undo a handoff: its task goes back to the sender, with the reason and the receiver's last message, and its
        `on_rollback` is called until it succeeds. Transfers that followed it are undone with it. Returns when the
        handoff is RETURNED; in a hook, when that is requested. `handoff` is a HandoffRecord or its id; `reason` and
        `by` say why and who, and are recorded.

        Raises IllegalTransition if there is nothing to undo: it was rejected, or has come back already.
        """
        id = handoff.id if isinstance(handoff, HandoffRecord) else handoff
        check_texts(reason=reason, by=by)
        check_id(handoff=id)
        return await self.engine.put(RollBack(id, reason, by))

    async def hand_on(self, ticket: Ticket | str, receiver: str, *, by: str = "", reason: str = "") -> None:
        """Give a ticket that was not accepted yet to another agent, also if a worker has claimed it. `ticket` is a
        Ticket or its id; `by` and `reason` say who does it and why, and are recorded.

        Raises HandoffNotFound if no such ticket is in the queue, IllegalTransition if its task was accepted, and
        MisconfiguredError if the team has no such `receiver`, or if the receiver has the ticket or declined it before.
        """
        id = ticket.id if isinstance(ticket, Ticket) else ticket
        check_texts(reason=reason, by=by, receiver=receiver)
        check_id(ticket=id)
        if not (found := await self.log.queue.tickets(id)):
            raise HandoffNotFound(id)
        words = reason or f"{by or 'an operator'} gives it to {receiver}"
        await self.engine.put(HandOn(found[0].ticket, receiver, words, by))

    async def rename(self, conversation: str, title: str, *, by: str = "") -> None:
        """Give a `conversation` another `title` than the first words of its first message; `by` names the person, and
        is recorded. Raises ConversationNotFound, and MisconfiguredError if the title is empty or too long."""
        check_texts(title=title, by=by)
        title = " ".join(title.split())
        if not title or len(title) > LONGEST_TITLE:
            raise MisconfiguredError(f"a title has 1 to {LONGEST_TITLE} characters, not {len(title)}")
        check_id(conversation=conversation, title=title, by=by)
        await self.engine.put(Rename(conversation, title, by))

    async def forget(self, conversation: str) -> bool:
        """Remove a conversation with its log, delegates, handoffs and stored contexts; False if there is none.

        Raises UnderWay while something goes on in it; cancel that first.
        """
        check_id(conversation=conversation)
        return await self.engine.forget(conversation)

    async def breakers(self) -> list[Circuit]:
        """The circuit breakers of all receivers that ever failed, shared by all processes on the store."""
        return await self.log.breakers.listed()

    async def force_breaker(self, receiver: str) -> None:
        """Open a receiver's circuit breaker: no process on the store hands anything to it until it is reset."""
        check_id(receiver=receiver)
        await self.log.breakers.force(receiver, self.clock.now())

    async def reset_breaker(self, receiver: str) -> bool:
        """Close a receiver's circuit breaker and forget its failures; False if there were none."""
        check_id(receiver=receiver)
        return await self.log.breakers.reset(receiver, self.clock.now())

    async def metrics(self, window: Window = None) -> Metrics:
        """Figures of handoffs by agent and by pair. `window` is a number of seconds or a timedelta, up to now; None
        means all time."""
        return await measured(self.log.lists.measures, *window_of(window, self.clock.now()))

    async def measure(self, conversation: str, name: str, value: float) -> None:
        """Store a measure of your own for a `conversation`, such as the satisfaction of its user: the `name` of the
        measure and its `value`, a finite number. A later value of the same measure replaces it."""
        check_id(conversation=conversation, name=name)
        await keep(self.log.trials, conversation, (name, value), self.clock.now())

    async def history(self, conversation: str, *, after: int = 0) -> list[Recorded]:
        """The events of a conversation and its delegates in order: all of them, or those with a `seq` greater than
        `after`. Raises ConversationNotFound."""
        check_id(conversation=conversation)
        check_seq(after=after)
        return [each for each in recorded(await self._tree(conversation)) if each.seq > after]

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """All handoffs of a conversation and its delegates, in order; raises ConversationNotFound."""
        check_id(conversation=conversation)
        return await self.log.lists.handoffs(conversation)

    async def context_flow(self, conversation: str) -> list[ValueFlow]:
        """For each context variable and artifact of a conversation and its delegates: which hop set, changed or
        removed it, from what to what. Raises ConversationNotFound."""
        check_id(conversation=conversation)
        return await self.log.lists.context_flow(conversation)

    async def _tree(self, conversation: str) -> list[Entry]:
        entries = await self.log.lists.tree(conversation)
        if not entries:
            raise ConversationNotFound(conversation)
        return entries
