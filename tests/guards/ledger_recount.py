"""What a run has spent, counted anew from the log of its tree."""

from collections import Counter
from collections.abc import Iterable, Sequence

from changeover.facts import Ledger, Share, Usage
from changeover.relay.events import (
    ContextPacked,
    Entry,
    Event,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    ModelFailed,
    ModelReplied,
    RunStarted,
    TierChosen,
)

Told = tuple[str, Event]
"""An event, and the conversation in whose log it stands."""


def told(entries: Iterable[Entry]) -> list[Told]:
    return [(entry.conversation, event) for entry in entries for event in entry.events]  # type: ignore[misc]


def recounted(entries: Sequence[Entry]) -> Ledger:
    """The ledger of the one run that these entries tell of; how long it took is not counted."""
    events = told(entries)
    handoffs, turns, retries = _handoffs(events), Counter[str](), Counter[str]()
    usage: dict[str, Usage] = {}
    for _, event in events:
        match event:
            case ModelReplied():
                turns[event.agent] += 1
                usage[event.agent] = usage.get(event.agent, Usage()) + (event.usage or Usage(requests=1))
            case ModelFailed(retry_at=at) if at is not None:
                retries[event.agent] += 1
            case ContextPacked(usage=used) | TierChosen(usage=used):
                assert used is None, "count it for whoever handed over"
            case _:
                pass
    names = {*handoffs, *turns, *retries}
    shares = {name: Share(handoffs[name], turns[name], retries[name], usage.get(name, Usage())) for name in names}
    whole = sum(shares.values(), Share())
    in_all = (whole.handoffs, whole.turns, whole.tokens, whole.cost, len(agents(events)), whole.retries)
    return Ledger(*in_all, by_agent=shares)


def _handoffs(events: Sequence[Told]) -> Counter[str]:
    """Who offered how many, but for those that nobody took."""
    offered = {(where, event.call): event.sender for where, event in events if isinstance(event, HandoffOffered)}
    taken = {(where, event.call) for where, event in events if isinstance(event, HandoffAccepted)}
    for where, event in events:
        if isinstance(event, HandoffRejected | HandoffExpired) and (where, event.call) not in taken:
            del offered[where, event.call]
    return Counter(offered.values())


def agents(events: Iterable[Told]) -> set[str]:
    """Everybody who worked, or took a task."""
    begun = {event.agent for _, event in events if isinstance(event, RunStarted)}
    return begun | {event.receiver for _, event in events if isinstance(event, HandoffAccepted)}
