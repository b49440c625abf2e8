"""Every error that Changeover raises. Each has its facts as attributes, and `.result` if a run was under way."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from changeover.facts import HandoffRecord, HandoffResult, Mode, RunResult
from changeover.faults import Circuit, LimitName


class ChangeoverError(Exception):
    """The base class of all errors of Changeover.

    `result` is the RunResult so far if a run was under way, else None.
    """

    result: RunResult | None = None


class MisconfiguredError(ChangeoverError):
    """A declaration or an argument cannot work; raised before anything is recorded.

    `faults` holds one text for each thing that is wrong.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__(faults[0] if len(faults) == 1 else "\n".join(f"- {fault}" for fault in faults))


class UnknownAgentError(MisconfiguredError):
    """A caller named an agent that the team does not have.

    `agent` is the name that was given, `available` the ids of the team.
    """

    def __init__(self, agent: str, available: Sequence[str]) -> None:
        self.agent, self.available = agent, tuple(available)
        close = get_close_matches(agent, available, 1)
        meant = f"did you mean {close[0]!r}? T" if close else "t"
        super().__init__(f"no agent is called {agent!r}; {meant}his team has: {', '.join(sorted(available))}")


class ProtocolError(ChangeoverError):
    """The base class of errors about requests that the protocol of handoffs or an earlier request does not allow."""


class IllegalTransition(ProtocolError):
    """A handoff cannot leave its `state` by this `signal`; `possible` holds the signals that it allows."""

    def __init__(self, state: str, signal: str, possible: Sequence[str]) -> None:
        self.state, self.signal, self.possible = state, signal, tuple(possible)
        allowed = f"only {', '.join(possible)}" if possible else "nothing"
        super().__init__(f"a handoff that is {state} cannot {signal}; it allows {allowed}")


class HandoffError(ChangeoverError):
    """The base class of errors about handoffs that could not be made or gave no usable result."""


class HandoffTargetNotFoundError(HandoffError):
    """A model repeatedly named a receiver that does not exist.

    `sender` is the agent of that model, `receiver` the name it gave, `available` the ids that exist.
    """

    def __init__(self, sender: str, receiver: str, available: Sequence[str]) -> None:
        self.sender, self.receiver, self.available = sender, receiver, tuple(available)
        names = ", ".join(available) or "none"
        super().__init__(f"{sender!r} tried to hand off to {receiver!r}, who does not exist; there are: {names}")


class HandoffRefusedError(HandoffError):
    """No receiver accepts what `agent` has to hand over, or a person stopped it; `reason` says why."""

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"{agent!r} cannot go on: {reason}")


class DeadlockDetected(HandoffRefusedError):
    """A task goes in a circle: `agent` repeats an earlier handoff, and there was no progress since.

    `cycle` holds the ids of the agents in the order in which they had the task.
    """

    def __init__(self, agent: str, reason: str, cycle: Sequence[str]) -> None:
        self.cycle = tuple(cycle)
        super().__init__(agent, reason)


class CircuitBreakerOpen(HandoffRefusedError):
    """No receiver is left for the task that `agent` hands over: the last one failed too often and gets no handoffs now.

    `circuit` is the open circuit of that receiver as it was when the handoff was refused.
    """

    def __init__(self, agent: str, reason: str, circuit: Circuit) -> None:
        self.circuit = circuit
        super().__init__(agent, reason)


class HandoffTimeoutError(HandoffError):
    """A receiver did not answer the offer, or did not finish the work, in time.

    `handoff` is the HandoffResult, `handoff_id` and `agent` name the handoff and its receiver.
    """

    def __init__(self, handoff: HandoffResult) -> None:
        self.handoff, self.handoff_id, self.agent = handoff, handoff.handoff_id, handoff.agent
        super().__init__(
            f"{handoff.agent!r} took too long over {handoff.handoff_id}: {handoff.reason or handoff.error}"
        )


class ExpectationError(HandoffError):
    """The result of a handoff does not fit what its sender expects, also after a second try. A worker that brings such
    a result is told at once, and may try a second time under the same claim.

    `agent` is the receiver, `reason` says what does not fit.
    """

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"the result of {agent!r} is not what was expected: {reason}")


class EconomicLimitExceeded(ChangeoverError):
    """A run reached one of its limits (see `Limits`).

    `limit_name` and `limit` are the limit and its value, `ledger` what the run has spent (None if unknown).
    """

    def __init__(
        self,
        limit_name: LimitName,
        limit: int | float,
        result: RunResult | None = None,
        spent: int | float | None = None,
    ) -> None:
        self.limit_name, self.limit, self.result = limit_name, limit, result
        self.ledger = result.ledger if result else None
        super().__init__(f"{limit_words(limit_name, limit, spent)}{_spent(result)}")

    @property
    def overshoot(self) -> int | float:
        """How much more than the limit was spent: model calls that were under way when it was reached still count."""
        figures = {"max_tokens": "tokens", "max_cost": "cost", "timeout": "elapsed"}
        if self.ledger is None or self.limit_name not in figures:
            return 0
        return max(0, (getattr(self.ledger, figures[self.limit_name]) or 0) - self.limit)


def limit_words(limit: LimitName, figure: int | float, spent: int | float | None) -> str:
    """A sentence about a run that reached this limit; `spent` is None if that is unknown, or does not matter."""
    match limit:
        case "timeout":
            return f"the run took longer than timeout={figure:g} seconds"
        case "max_cost" if spent is None:
            return f"max_cost={figure:g} cannot be enforced: the cost of a call is unknown"
        case "max_tokens" | "max_cost":
            return f"the run has used up {limit}={figure:g}: it has spent {spent:g}"
        case _:
            return f"the run needs more than {limit}={figure}"


class MaxHandoffsExceededError(EconomicLimitExceeded):
    """An agent wanted one handoff more than the run may make; `chain` holds all that were made, as HandoffRecords."""

    def __init__(self, limit: int | float, chain: Sequence[HandoffRecord], result: RunResult | None = None) -> None:
        super().__init__("max_handoffs", limit, result)
        self.chain = list(chain)
        below = (result.ledger.handoffs if result else len(chain)) - len(chain)
        more = f", and {below} by delegates" if below > 0 else ""
        self.args = (f"the run needs more than max_handoffs={limit}; the handoffs made: {_route(chain)}{more}",)


class ModelError(ChangeoverError):
    """A model failed after all retries, or repeatedly made calls that cannot work.

    `agent` is the agent that called it. A model that raises this sets `retryable` (default True) and `retry_after`, in
    seconds (None for the usual pause).
    """

    def __init__(
        self, message: str, *, agent: str = "", retryable: bool = True, retry_after: float | None = None
    ) -> None:
        self.agent, self.retryable, self.retry_after = agent, retryable, retry_after
        super().__init__(message)


class FunctionError(ChangeoverError):
    """The function of a Function member raised; `agent` is the id of the member."""

    def __init__(self, message: str, *, agent: str = "") -> None:
        self.agent = agent
        super().__init__(message)


class StepError(ChangeoverError):
    """A step of a workflow failed for good, and the steps done before it were undone if they declare `on_rollback`."""

    def __init__(self, workflow: str, step: str, reason: str) -> None:
        self.workflow, self.step, self.reason = workflow, step, reason
        super().__init__(f"the step {step!r} of the workflow {workflow!r} failed: {reason}")


class WorkerError(FunctionError):
    """A worker that had claimed a task of `agent` gave it up."""


class ConversationNotFound(ChangeoverError):
    """No conversation has the id `conversation`."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"no conversation has the id {conversation!r}")


class HandoffNotFound(ChangeoverError):
    """No handoff has the id `handoff`."""

    def __init__(self, handoff: str) -> None:
        self.handoff = handoff
        super().__init__(f"no handoff has the id {handoff!r}")


class ApprovalError(ChangeoverError):
    """A decision is refused: the request is not pending, was decided before, or asks for something else.

    `approval` is the id of the request.
    """

    def __init__(self, message: str, *, approval: str = "") -> None:
        self.approval = approval
        super().__init__(message)


class TokenRefused(ChangeoverError):
    """A server does not accept the token of a caller, because it is unknown, has expired or was revoked."""


class SignatureRefused(ChangeoverError):
    """The signature of a webhook is missing, wrong, old or was used before."""


class EngineError(ChangeoverError):
    """The base class of errors of engines and stores; the logs of conversations stay intact."""


class Conflict(EngineError):
    """An append lost a race: another entry has this `position`, or this `cause` is recorded already.

    `conversation` is the id of the conversation.
    """

    def __init__(self, conversation: str, position: int, cause: str) -> None:
        self.conversation, self.position, self.cause = conversation, position, cause
        super().__init__(f"{conversation!r} has moved on: {cause!r} cannot be recorded at {position}")


class Exhausted(EngineError):
    """The budget of a run's tree does not allow an append.

    `limit` and `figure` are the limit and its value, `left` is what remains of it, `spent` what was spent (None if
    unknown), `agents` the agents that have worked.
    """

    def __init__(
        self,
        limit: LimitName,
        figure: int | float,
        left: int = 0,
        spent: int | float | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        self.limit: LimitName = limit
        self.spent, self.agents = spent, tuple(agents)
        self.figure, self.left = figure, left
        super().__init__(f"the run has {left} left of {limit}={figure}")


class CircuitsOpen(EngineError):
    """An append offers handoffs to receivers whose circuit breaker is open.

    `offers` holds, for each of these handoffs, its id, its receiver, the failures in a row, the end of the cool-down in
    seconds since the epoch (None if a person has to reset it), and when the circuit opened.
    """

    def __init__(self, offers: Sequence[tuple[str, str, int, float | None, float]]) -> None:
        self.offers = tuple(offers)
        names = dict.fromkeys(receiver for _, receiver, *_ in offers)
        super().__init__(f"circuits are open: {', '.join(names)}")


class Owned(EngineError):
    """Another live process, the `owner`, works on this `conversation`."""

    def __init__(self, conversation: str, owner: str) -> None:
        self.conversation, self.owner = conversation, owner
        super().__init__(f"{owner} works on {conversation!r}")


class UnderWay(EngineError):
    """A `conversation` cannot be forgotten while work in it is outstanding; `why` names that work."""

    def __init__(self, conversation: str, why: str) -> None:
        self.conversation, self.why = conversation, why
        super().__init__(f"{conversation!r} is not over, so it cannot be forgotten: {why}; cancel it first")


class LeaseLost(EngineError):
    """This process did not renew its lease in time: it must not write or start commands until it has a new lease."""


class WrittenByNewer(EngineError):
    """A `conversation` holds an `event` of a type that only a newer version knows."""

    def __init__(self, conversation: str, event: str) -> None:
        self.conversation, self.event = conversation, event
        super().__init__(
            f"{conversation!r} holds an event that a newer version of changeover wrote"
            f" ({event}); go on with that version"
        )


class StoreUnavailable(EngineError):
    """The store cannot be reached, or refuses its use; no transaction was written in part."""


class StoreDamaged(StoreUnavailable):
    """The log of a `conversation` cannot be read or is not whole; other conversations are not affected."""

    def __init__(self, conversation: str, problem: str) -> None:
        self.conversation, self.problem = conversation, problem
        super().__init__(f"the store is damaged: in {conversation!r} {problem}; see: changeover db check")


class StoreClosed(StoreUnavailable):
    """This process has closed the store: a retry cannot succeed."""


UNREADABLE = (WrittenByNewer, StoreDamaged)
"""The errors that stop one conversation in this process, and no other."""


class DeclarationConflict(ProtocolError):
    """The declaration `name` of this `kind` is not at the version that the writer `expected` (0 if it must not exist).

    `version` is its current one, which `by` wrote; nothing was changed.
    """

    def __init__(self, kind: str, name: str, expected: int, version: int, by: str, when: str) -> None:
        self.kind, self.name, self.expected, self.version, self.by = kind, name, expected, version, by
        written = f"at version {version}, written by {by or 'an unnamed writer'} at {when}"
        now = f"is {written}" if version else "does not exist"
        super().__init__(
            f"{kind} {name!r} {now}, and version {expected} was expected; read it again, then change it"
            if expected
            else f"{kind} {name!r} exists already, {written}; to change it, expect that version"
        )


class KeyConflict(ProtocolError):
    """The idempotency key `key` was used before, with another input."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        super().__init__(f"the key {key!r} was used before, for another input: {text[:200]!r}")


class Busy(ProtocolError):
    """Nothing can be submitted to `conversation` as long as other work goes on in it."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(
            f"{conversation!r} is at work on something else, so nothing can be submitted to it; wait until that is done"
            f" (see team.resume), or submit to another conversation"
        )


class ClaimLost(ProtocolError):
    """A worker's claim on `ticket` is no longer valid: its lease expired, or the work is over."""

    def __init__(self, ticket: str, why: str = "") -> None:
        self.ticket = ticket
        super().__init__(f"the claim on {ticket!r} is no longer valid{f': {why}' if why else ''}")


class PackageError(ProtocolError):
    """A value in a handoff package is refused; `path` says where ("$.task.id"), `problem` what is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


def _route(chain: Sequence[HandoffRecord]) -> str:
    """The handoffs as "a -> b -> c"; where the sender is not the last receiver, a new route begins after a comma."""
    route = ""
    for before, handoff in zip((None, *chain), chain, strict=False):
        if before is not None and before.receiver == handoff.sender and before.mode is Mode.TRANSFER:
            route += f" -> {handoff.receiver}"
        else:
            route += f"{', ' if route else ''}{handoff.sender} -> {handoff.receiver}"
    return route or "none"


def _spent(result: RunResult | None) -> str:
    if result is None:
        return ""
    ledger = result.ledger
    counted = [f"{ledger.turns} model turns", f"{ledger.handoffs} handoffs", f"{ledger.tokens} tokens"]
    counted += [f"{ledger.agents} agents"] if ledger.agents > 1 else []
    counted += [f"{ledger.cost:.4g} US dollars"] if ledger.cost else []
    return f" (so far: {', '.join(counted)})"
