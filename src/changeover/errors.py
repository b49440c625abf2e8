"""Everything Changeover raises. Each error carries its facts as attributes, and `.result` where a run was under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from changeover.facts import HandoffRecord, HandoffResult, Mode, RunResult
from changeover.faults import (
    AgentFault,
    Fault,
    FunctionFault,
    LimitFault,
    LimitName,
    ModelFault,
    ReceiverFault,
    RefusalFault,
    ResultFault,
    WorkerFault,
)


class ChangeoverError(Exception):
    """The root of all our errors."""

    result: RunResult | None = None


class MisconfiguredError(ChangeoverError):
    """Something was declared or asked for that cannot work; raised before anything is recorded."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__(faults[0] if len(faults) == 1 else "\n".join(f"- {fault}" for fault in faults))


class UnknownAgentError(MisconfiguredError):
    """A caller named an agent that this team does not have."""

    def __init__(self, agent: str, available: Sequence[str]) -> None:
        self.agent, self.available = agent, tuple(available)
        super().__init__(f"no agent is called {agent!r}; this team has: {', '.join(sorted(available))}")


class ProtocolError(ChangeoverError):
    """A handoff was asked to do what its protocol does not allow."""


class IllegalTransition(ProtocolError):
    """A handoff cannot go from its state by this signal."""

    def __init__(self, state: str, signal: str, possible: Sequence[str]) -> None:
        self.state, self.signal, self.possible = state, signal, tuple(possible)
        allowed = f"only {', '.join(possible)}" if possible else "nothing"
        super().__init__(f"a handoff that is {state} cannot {signal}; it allows {allowed}")


class HandoffError(ChangeoverError):
    """A handoff could not be made."""


class HandoffTargetNotFoundError(HandoffError):
    """A model kept naming receivers that this team does not have."""

    def __init__(self, sender: str, receiver: str, available: Sequence[str]) -> None:
        self.sender, self.receiver, self.available = sender, receiver, tuple(available)
        names = ", ".join(available) or "nobody"
        super().__init__(f"{sender!r} tried to hand off to {receiver!r}, who does not exist; there are: {names}")


class HandoffRefusedError(HandoffError):
    """Nobody takes what a member would hand over, or a person does not go on."""

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"{agent!r} does not go on: {reason}")


class HandoffTimeoutError(HandoffError):
    """A receiver did not answer, or did not finish, in time."""

    def __init__(self, handoff: HandoffResult) -> None:
        self.handoff, self.handoff_id, self.agent = handoff, handoff.handoff_id, handoff.agent
        super().__init__(
            f"{handoff.agent!r} took too long over {handoff.handoff_id}: {handoff.reason or handoff.error}"
        )


class ExpectationError(HandoffError):
    """What came of a handoff is not what was expected of it, also not after a second try."""

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"what {agent!r} answered is not what was expected: {reason}")


class EconomicLimitExceeded(ChangeoverError):
    """A run reached one of its limits."""

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
        """By how much the run spent more than it may have: calls that are under way when the last of it is spent are
        still paid for."""
        figures = {"max_tokens": "tokens", "max_cost": "cost", "timeout": "elapsed"}
        if self.ledger is None or self.limit_name not in figures:
            return 0
        return max(0, (getattr(self.ledger, figures[self.limit_name]) or 0) - self.limit)


def limit_words(limit: LimitName, figure: int | float, spent: int | float | None) -> str:
    """What is said of a run that has come to one of its limits."""
    match limit:
        case "timeout":
            return f"the run took longer than timeout={figure:g} seconds"
        case "max_cost" if spent is None:
            return f"max_cost={figure:g} cannot be kept, for what a call costs is not known"
        case "max_tokens" | "max_cost":
            return f"the run has used up {limit}={figure:g}: it has spent {spent:g}"
        case _:
            return f"the run needs more than {limit}={figure}"


class MaxHandoffsExceededError(EconomicLimitExceeded):
    """One more handoff was asked for than the run may make."""

    def __init__(self, limit: int | float, chain: Sequence[HandoffRecord], result: RunResult | None = None) -> None:
        super().__init__("max_handoffs", limit, result)
        self.chain = list(chain)
        below = (result.ledger.handoffs if result else len(chain)) - len(chain)
        more = f", and {below} by delegates" if below > 0 else ""
        self.args = (f"the run needs more than max_handoffs={limit}; the handoffs made: {_route(chain)}{more}",)


class ModelError(ChangeoverError):
    """A model failed for good, or kept making calls that cannot work."""

    def __init__(
        self, message: str, *, agent: str = "", retryable: bool = True, retry_after: float | None = None
    ) -> None:
        self.agent, self.retryable, self.retry_after = agent, retryable, retry_after
        super().__init__(message)


class FunctionError(ChangeoverError):
    """A Function member raised."""

    def __init__(self, message: str, *, agent: str = "") -> None:
        self.agent = agent
        super().__init__(message)


class WorkerError(FunctionError):
    """A worker that had claimed the task of an agent gave it up."""


class ConversationNotFound(ChangeoverError):
    """No conversation has this id."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"no conversation has the id {conversation!r}")


class HandoffNotFound(ChangeoverError):
    """No handoff has this id."""

    def __init__(self, handoff: str) -> None:
        self.handoff = handoff
        super().__init__(f"no handoff has the id {handoff!r}")


class ApprovalError(ChangeoverError):
    """A decision that cannot hold: nothing awaits it, somebody decided before, or it does not fit what was asked."""

    def __init__(self, message: str, *, approval: str = "") -> None:
        self.approval = approval
        super().__init__(message)


class EngineError(ChangeoverError):
    """The machinery below a conversation failed; its log is intact."""


class Conflict(EngineError):
    """Somebody else appended at this position, or this outcome is recorded already."""

    def __init__(self, conversation: str, position: int, cause: str) -> None:
        self.conversation, self.position, self.cause = conversation, position, cause
        super().__init__(f"{conversation!r} has moved on: {cause!r} cannot be recorded at {position}")


class Exhausted(EngineError):
    """The tree of a run may not spend what was asked for; `left` says how much it may."""

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
    """Some of the receivers to whom an entry offers something get nothing now; `offers` names all of these at once:
    the handoff, its receiver, how often that failed in a row, and until when it is left alone."""

    def __init__(self, offers: Sequence[tuple[str, str, int, float | None]]) -> None:
        self.offers = tuple(offers)
        names = dict.fromkeys(receiver for _, receiver, _, _ in offers)
        super().__init__(f"circuits are open: {', '.join(names)}")


class Owned(EngineError):
    """Another live process works on this conversation."""

    def __init__(self, conversation: str, owner: str) -> None:
        self.conversation, self.owner = conversation, owner
        super().__init__(f"{owner} works on {conversation!r}")


class UnderWay(EngineError):
    """A conversation cannot be forgotten while something in it goes on, or is going to."""

    def __init__(self, conversation: str, why: str) -> None:
        self.conversation, self.why = conversation, why
        super().__init__(f"{conversation!r} is not over, so it cannot be forgotten: {why}; cancel it first")


class LeaseLost(EngineError):
    """This process did not renew its lease in time: it must not write, nor begin anything, until it has a new one."""


class WrittenByNewer(EngineError):
    """A conversation holds an event that only a newer version understands: it is left to that one."""

    def __init__(self, conversation: str, event: str) -> None:
        self.conversation, self.event = conversation, event
        super().__init__(
            f"{conversation!r} holds an event that a newer version of changeover wrote"
            f" ({event}); go on with that version"
        )


class StoreUnavailable(EngineError):
    """The store cannot be reached, or refuses to be used; nothing was half-written."""


class StoreDamaged(StoreUnavailable):
    """An entry cannot be read by anybody; conversations without it can."""


class StoreClosed(StoreUnavailable):
    """The store was closed here: to wait for it would be in vain."""


UNREADABLE = (WrittenByNewer, StoreDamaged)
"""What keeps one conversation from going on here, and no other."""


class KeyConflict(ProtocolError):
    """An idempotency key was given to something else before."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        super().__init__(f"the key {key!r} was given before, to something else: {text[:200]!r}")


class Busy(ProtocolError):
    """What is submitted has a ticket at once, which it cannot have where something else has to be done first."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(
            f"{conversation!r} is at work on something else, so nothing can be submitted to it; wait until that is done"
            f" (see team.resume), or submit it to a conversation of its own"
        )


class ClaimLost(ProtocolError):
    """A ticket is not this worker's any more: its lease ran out and somebody else may have it, or it is over."""

    def __init__(self, ticket: str, why: str = "") -> None:
        self.ticket = ticket
        super().__init__(f"the claim on {ticket!r} does not hold any more{f': {why}' if why else ''}")


class PackageError(ProtocolError):
    """A handoff package, or a part of it, holds what it cannot hold; `path` says where."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


def error_of(fault: Fault, result: RunResult) -> ChangeoverError:
    """The exception that tells a caller of this fault."""
    error: ChangeoverError
    match fault:
        case LimitFault(limit="max_handoffs"):
            error = MaxHandoffsExceededError(fault.figure, result.handoff_chain, result)
        case LimitFault():
            error = EconomicLimitExceeded(fault.limit, fault.figure, result, fault.spent)
        case ReceiverFault():
            error = HandoffTargetNotFoundError(fault.sender, fault.receiver, fault.available)
        case RefusalFault() | ResultFault():
            kind = HandoffRefusedError if isinstance(fault, RefusalFault) else ExpectationError
            error = kind(fault.agent, fault.reason)
        case ModelFault() | WorkerFault() | FunctionFault():
            error = _failure(fault)
        case AgentFault():
            error = UnknownAgentError(fault.agent, fault.available)
        case _:
            assert_never(fault)
    error.result = result
    return error


def _failure(fault: ModelFault | WorkerFault | FunctionFault) -> ChangeoverError:
    """Whoever should have worked did not."""
    match fault:
        case ModelFault(agent=agent, reason=reason):
            return ModelError(f"{agent!r} got no usable reply from its model: {reason}", agent=agent)
        case WorkerFault(agent=agent, reason=reason):
            return WorkerError(f"whoever worked for {agent!r} gave up: {reason}", agent=agent)
        case FunctionFault(agent=agent, reason=reason):
            return FunctionError(f"the function of {agent!r} raised {reason}", agent=agent)


def _route(chain: Sequence[HandoffRecord]) -> str:
    """Who handed on to whom; where somebody else than the last receiver did, the route begins anew."""
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
