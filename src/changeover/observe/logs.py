"""Logs for operators: one line for what happens in conversations, as text or JSON, without anything private."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from changeover.ids import handoff_id, run_id, split_trace
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallRefused,
    Event,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    LimitReached,
    ModelFailed,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    TicketLapsed,
    TicketTaken,
    Unreadable,
    UserSpoke,
)
from changeover.relay.stream import Recorded

logger = logging.getLogger("changeover.work")

HANDOFFS = (HandoffOffered, HandoffAccepted, HandoffRejected, HandoffExpired, HandoffReturned)
"""Events whose call is a handoff; that of others may be a tool."""

LogFormat = Literal["text", "json"]
SECRETS = re.compile(r"chg_[\w-]+|(?<=[Bb]earer )\S+|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


def redacted(text: str) -> str:
    """A text without anything that looks like a token."""
    return SECRETS.sub("***", text)


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON: time, level, logger, message, and the facts that it was logged with."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = redacted(f"{type(error).__name__}: {error}")
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(format: LogFormat, level: int = logging.INFO) -> None:
    """Log everything of this library to standard error, in place of the handlers that its logger `changeover` had; all
    other loggers stay as they are."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines() if format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    own = logging.getLogger("changeover")
    own.handlers, own.propagate = [handler], False
    own.setLevel(level)


class Narrator:
    """Logs what an operator needs to know of conversations: ids, agents and outcomes, but no content."""

    reads_handoffs = True

    def __init__(self) -> None:
        self._runs: dict[str, tuple[str, str]] = {}
        """The run and the trace of each conversation that is under way here."""
        self._traces: dict[tuple[str, int], str] = {}

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        return True

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        """Log these events."""
        if not logger.isEnabledFor(logging.INFO):
            return
        for record in recorded:
            self._follow(record)
            if (told := _told(record.event)) is not None:
                level, words, facts = told
                logger.log(level, words, extra={"facts": {**self._ids(record), **facts}})
            if isinstance(record.event, RunCompleted | RunFailed | RunCancelled):
                self._runs.pop(record.conversation, None)

    def _follow(self, record: Recorded) -> None:
        match record.event:
            case UserSpoke(trace=str(trace)) if trace:
                self._traces[record.conversation, record.position] = trace
            case RunStarted(run=run):
                trace = self._traces.pop((record.conversation, run), "")
                self._runs[record.conversation] = (run_id(record.conversation, run), trace and split_trace(trace)[0])
            case _:
                pass

    def _ids(self, record: Recorded) -> dict[str, str]:
        run, trace = self._runs.get(record.conversation, ("", ""))
        call = getattr(record.event, "call", "")
        about = handoff_id(record.conversation, call) if call else ""
        handoff = record.handoff.id if record.handoff else about if isinstance(record.event, HANDOFFS) else ""
        known = {"conversation": record.conversation, "run": run, "handoff": handoff, "trace_id": trace}
        if about and not handoff:
            known["call"] = about
        return {name: value for name, value in known.items() if value}


Told = tuple[int, str, dict[str, Any]]


def _told(event: Event | Unreadable) -> Told | None:  # noqa: C901 - one line for each kind of event
    """Level, message and facts of the log line of an event; None if it has none."""
    match event:
        case RunStarted():
            return logging.INFO, "run started", {"agent": event.agent}
        case RunCompleted():
            return logging.INFO, "run completed", {}
        case RunCancelled():
            return logging.INFO, "run cancelled", {}
        case RunFailed():
            return logging.ERROR, "run failed", {"error": type(event.fault).__name__}
        case HandoffOffered():
            return (
                logging.INFO,
                "handoff offered",
                {
                    "sender": event.sender,
                    "receiver": event.receiver,
                    "mode": str(event.mode),
                },
            )
        case HandoffAccepted():
            return logging.INFO, "handoff accepted", {"receiver": event.receiver}
        case HandoffRejected():
            return logging.WARNING, "handoff rejected", {"receiver": event.receiver}
        case HandoffExpired():
            return logging.WARNING, "handoff expired", {"receiver": event.receiver}
        case HandoffReturned():
            return logging.INFO, "delegate returned", {"receiver": event.receiver, "success": event.success}
        case ApprovalRequested():
            return logging.INFO, "approval requested", {"agent": event.agent, "tool": event.tool}
        case ApprovalDecided():
            return logging.INFO, "approval decided", {"decision": type(event.decision).__name__.lower()}
        case CallRefused():
            return logging.WARNING, "call refused", {"why": event.why}
        case LimitReached():
            return logging.WARNING, "limit reached", {"limit": event.limit, "figure": event.figure}
        case ModelFailed():
            return logging.WARNING, "model call failed", {"agent": event.agent, "retried": event.retry_at is not None}
        case TicketTaken():
            return logging.INFO, "ticket taken", {"ticket": event.ticket, "worker": event.by}
        case TicketLapsed():
            return logging.WARNING, "ticket lapsed", {"ticket": event.ticket}
        case _:
            return None
