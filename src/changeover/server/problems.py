"""Problems: what the server answers when it refuses or fails, by RFC 9457; one table from error classes to statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response

from changeover.errors import (
    ApprovalError,
    Busy,
    ChangeoverError,
    ClaimLost,
    Conflict,
    ConversationNotFound,
    DeclarationConflict,
    EconomicLimitExceeded,
    EngineError,
    FunctionError,
    HandoffError,
    HandoffNotFound,
    HandoffTimeoutError,
    KeyConflict,
    MisconfiguredError,
    ModelError,
    PackageError,
    ProtocolError,
    SignatureRefused,
    StoreDamaged,
    StoreUnavailable,
    TokenRefused,
    UnderWay,
    WrittenByNewer,
)

HIDDEN = {
    500: "the server failed; its log has the cause under this request id",
    503: "the store cannot be reached now, or the server stops; try again",
}
"""What clients read in place of the text of a failure, which may name hosts, files or SQL."""
RETRY_AFTER = 2
"""Seconds after which a client may ask again while the store cannot be reached."""

STATUS: dict[type[Exception], int] = {
    ConversationNotFound: 404,
    HandoffNotFound: 404,
    MisconfiguredError: 422,
    PackageError: 422,
    TokenRefused: 401,
    SignatureRefused: 401,
    DeclarationConflict: 412,
    ApprovalError: 409,
    ClaimLost: 409,
    KeyConflict: 409,
    Busy: 409,
    UnderWay: 409,
    Conflict: 409,
    WrittenByNewer: 409,
    ProtocolError: 409,
    HandoffTimeoutError: 504,
    HandoffError: 409,
    EconomicLimitExceeded: 409,
    ModelError: 502,
    FunctionError: 502,
    StoreDamaged: 500,
    StoreUnavailable: 503,
    EngineError: 503,
    TimeoutError: 504,
}
"""The status of each class of errors; a class that is not here has that of its nearest base."""

FACTS = [
    "agent",
    "approval",
    "available",
    "conversation",
    "faults",
    "handoff",
    "handoff_id",
    "key",
    "limit",
    "limit_name",
    "path",
    "possible",
    "signal",
    "state",
    "ticket",
    "version",
    "by",
]
"""Attributes of errors that clients get beside the text."""


class ProblemBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal or failure; further members are the facts of the error."""

    type: str
    """The kind of problem, which does not change between versions."""
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    """The id of the request, which the server's log names too."""


class Problem(Exception):
    """A refusal by the server itself; other errors come from the library."""

    def __init__(self, status: int, detail: str, *, kind: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.status, self.detail, self.kind, self.headers = status, detail, kind, dict(headers or {})
        super().__init__(detail)


def problem_of(error: Exception, request_id: str = "") -> Response:
    """The answer to a request that ended in this error. Clients get no text of errors that are not ours."""
    told = _told(error)
    title = HTTPStatus(told.status).phrase
    body = ProblemBody(
        type=f"urn:changeover:problem:{told.kind or _slug(title)}",
        title=title,
        status=told.status,
        detail=told.detail,
        instance=request_id,
    )
    headers = {"Retry-After": str(RETRY_AFTER), **told.headers} if told.status == 503 else told.headers
    content = msgspec.json.encode({**_facts(error), **msgspec.to_builtins(body)})
    return Response(content, told.status, headers, "application/problem+json")


def _told(error: Exception) -> Problem:
    """The problem that clients get for an error."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            faults = "; ".join(f"{_where(each['loc'])}: {each['msg']}" for each in error.errors())
            return Problem(422, faults, kind="bad-parameter")
        case HTTPException():
            return Problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))
        case ChangeoverError() | TimeoutError():
            status, kind = status_of(type(error)), _slug(type(error).__name__)
            return Problem(status, HIDDEN.get(status) or str(error), kind=kind)
        case _:
            return Problem(500, HIDDEN[500])


def _facts(error: Exception) -> dict[str, Any]:
    if not isinstance(error, ChangeoverError):
        return {}
    return {name: value for name in FACTS if (value := getattr(error, name, None)) not in (None, "", ())}


def _where(place: Sequence[object]) -> str:
    return ".".join(map(str, place))


def status_of(kind: type[BaseException]) -> int:
    """The status of a class of errors."""
    return next((STATUS[each] for each in kind.__mro__ if each in STATUS), 500)


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|\s+", "-", name).lower()
