"""Pending approvals of a store in memory, updated with each entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changeover.facts import ApprovalRequest
from changeover.ids import request_id, topic_id
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Entry,
    FellBack,
    HandoffRolledBack,
    RollbackRequested,
    RunCancelled,
    RunFailed,
    RunStarted,
    RunStopped,
)
from changeover.relay.fold.approvals import request_of


class PendingApprovals:
    """The requests that await a decision, in all conversations."""

    def __init__(self) -> None:
        self._requests: dict[str, dict[str, ApprovalRequest]] = {}
        self._runs: dict[str, int] = {}
        """The current or last run of each conversation."""

    def all(self) -> list[ApprovalRequest]:
        """All requests, oldest first; requests of the same time are in the order of their calls."""
        requests = (request for asked in self._requests.values() for request in asked.values())
        return sorted(requests, key=lambda asked: (asked.at, asked.conversation, len(asked.call), asked.call))

    def note(self, entry: Entry) -> None:
        """Apply a recorded entry."""
        if _CHANGES.keys().isdisjoint(map(type, entry.events)):
            return  # most entries
        for event in entry.events:
            if type(event) in _CHANGES:
                _CHANGES[type(event)](self, entry, event)

    def forget(self, conversation: str) -> None:
        """Drop a conversation that was removed."""
        self._requests.pop(conversation, None)
        self._runs.pop(conversation, None)

    def _ask(self, entry: Entry, event: ApprovalRequested) -> None:
        request = request_of(entry.conversation, event, entry.at)
        self._requests.setdefault(entry.conversation, {})[request.id] = request

    def _decide(self, entry: Entry, event: ApprovalDecided) -> None:
        asked = self._requests.get(entry.conversation, {})
        asked.pop(request_id(entry.conversation, event.call, event.digest), None)

    def _begin(self, entry: Entry, event: RunStarted) -> None:
        self._runs[entry.conversation] = event.run

    def _withdraw(self, entry: Entry, event: RunCancelled | RunFailed | RunStopped | CancelRequested) -> None:
        # A run that has not begun has no requests: its cancellation leaves those of the current run.
        if event.run in (0, self._runs.get(entry.conversation)):
            self._requests.pop(entry.conversation, None)

    def _recall(self, entry: Entry, event: RollbackRequested) -> None:
        asked = self._requests.get(entry.conversation, {})
        for id in [id for id, request in asked.items() if request.call.startswith(topic_id(event.call, ""))]:
            del asked[id]

    def _undo(self, entry: Entry, event: HandoffRolledBack | FellBack) -> None:
        if isinstance(event, HandoffRolledBack) or event.agent:
            self._requests.pop(entry.conversation, None)


_CHANGES: dict[type, Callable[[PendingApprovals, Entry, Any], None]] = {
    RunStarted: PendingApprovals._begin,
    ApprovalRequested: PendingApprovals._ask,
    ApprovalDecided: PendingApprovals._decide,
    RunCancelled: PendingApprovals._withdraw,
    RunFailed: PendingApprovals._withdraw,
    RunStopped: PendingApprovals._withdraw,
    CancelRequested: PendingApprovals._withdraw,
    RollbackRequested: PendingApprovals._recall,
    HandoffRolledBack: PendingApprovals._undo,
    FellBack: PendingApprovals._undo,
}
