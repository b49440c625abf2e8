"""Packages that code offers: how one is recorded, and what came of it."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.errors import UnknownAgentError
from changeover.facts import DelegateResult, HandoffRecord, HandoffResult, RunResult, dated
from changeover.facts import State as Standing
from changeover.handoffs.package import HandoffPackage
from changeover.relay.events import UserSpoke
from changeover.relay.ids import call_of


def offer_of(package: HandoffPackage, available: list[str] | None, now: float) -> UserSpoke:
    """The event that records an offer; raises if nobody can be its receiver, before anything is recorded. Where the
    receiver is still to be found, nobody is `available` yet."""
    receiver, metadata = package.metadata.receiver, package.metadata
    if available is not None and receiver not in available:
        raise UnknownAgentError(receiver, available)
    stamped = replace(package, metadata=replace(metadata, timestamp=metadata.timestamp or dated(now)))
    return UserSpoke(
        package.task.description,
        metadata.user,
        context=package.context.variables,
        correlation_id=metadata.correlation_id,
        package=stamped.to_dict(),
    )


def handoff_of(result: RunResult, package: HandoffPackage, brokered: bool = False) -> HandoffResult:
    """What came of the package that this run is about, whose receiver may have been found by a broker."""
    back, tries = result.returned[0] if result.returned else None, _tries(result)
    if not tries:
        return _unoffered(result, package.metadata.receiver, back)
    record = tries[-1]
    declined = record.state in (Standing.REJECTED, Standing.RETURNED, Standing.TIMEOUT) and not (back and back.success)
    refused = brokered and record.state is Standing.REJECTED
    why = "; ".join(f"{each.receiver}: {each.error}" for each in tries) if refused else _why(record, back)
    awaited = ", ".join(request.receiver or request.kind for request in result.pending)
    return HandoffResult(
        handoff_id=record.id,
        agent=record.receiver,
        state=record.state,
        result=back.response if back else result.output,
        reason=f"waits for {awaited}" if awaited else why if declined else "",
        error="" if declined else record.error or (back.error if back else ""),
        summary=back.summary if back else "",
        iterations=back.iterations if back else result.ledger.turns,
        duration=back.duration if back else result.ledger.elapsed,
        conversation_id=result.conversation_id,
        pending=result.pending,
    )


def _unoffered(result: RunResult, receiver: str, back: DelegateResult | None) -> HandoffResult:
    """What came of a package of which nobody was asked yet, or ever."""
    state, reason = Standing.RETURNED, "cancelled"
    if back:
        state, reason = Standing.REJECTED, back.error
    elif result.status == "waiting":
        state, reason = Standing.PENDING, "waits until what was wanted before it is done"
    id = result.conversation_id
    return HandoffResult(
        handoff_id="", agent=receiver, state=state, reason=reason, conversation_id=id, pending=result.pending
    )


def _why(record: HandoffRecord, back: DelegateResult | None) -> str:
    """Why it came to nothing: what a person said who was asked in the end, else the receiver."""
    settled = back is not None and back.agent != record.receiver
    return back.error if back and settled else record.error


def _tries(result: RunResult) -> list[HandoffRecord]:
    """All attempts at what code offered: its first handoff of the run, and the ones that followed when it was declined;
    none if it was called off before anybody was asked, or there was nobody to ask."""
    chain = result.handoff_chain
    if not chain:
        return []
    call = call_of(chain[0].id.rpartition(":")[2])
    return [record for record in chain if call_of(record.id.rpartition(":")[2]) == call]
