"""Stored tokens and audit: their ports over side tables, in memory or in a database."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from changeover.errors import MisconfiguredError, TokenRefused
from changeover.relay.ports.tokens import EACH_USE, UNKNOWN, NewToken, Token, digest_of, id_in, secret_of
from changeover.stores.tables import AuditRow, Table, TokenRow


class StoredAudit:
    """The port `Audit` over its table."""

    def __init__(self, table: Table[AuditRow], now: Callable[[], float] = time.time) -> None:
        self._table, self._now = table, now

    async def note(
        self, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None, *, token: str = ""
    ) -> None:
        text = msgspec.json.encode(dict(detail or {})).decode()
        # The id is random, so a put never meets a row that exists.
        await self._table.put(AuditRow(secrets.token_hex(12), self._now(), actor, token, action, subject, text))


class StoredTokens:
    """The port `Tokens` over its table."""

    def __init__(self, table: Table[TokenRow], audit: StoredAudit, now: Callable[[], float] = time.time) -> None:
        self._table, self._audit, self._now = table, audit, now

    async def all(self) -> list[Token]:
        found = [replace(_token(row), digest="") for row in await self._table.all()]
        return sorted(found, key=lambda token: token.created_at)

    async def issue(self, wanted: NewToken, *, by: str, token: str = "") -> tuple[Token, str]:
        now = self._now()
        if faults := wanted.faults(now):
            raise MisconfiguredError(*faults)
        id = secrets.token_hex(6)
        secret = secret_of(id, secrets.token_urlsafe(32))
        made = Token(**asdict(wanted), id=id, digest=digest_of(secret), created_at=now)
        # First: a process that dies in between leaves a note without a token, and never a token without a note.
        await self._audit.note(by, "token.issue", id, asdict(wanted), token=token)
        await self._table.put(_row(made))
        return made, secret

    async def holder(self, secret: str) -> Token:
        id, now = id_in(secret), self._now()
        row = await self._table.get(id) if id else None
        if row is None:
            raise TokenRefused(UNKNOWN)
        token = _token(row)
        if refusal := token.refusal(secret, now):
            raise TokenRefused(refusal)
        if token.used_at is None or now - token.used_at >= EACH_USE:
            token = replace(token, used_at=now)
            await self._table.put(_row(token), ("used_at",))
        return token

    async def revoke(self, id: str, *, by: str, token: str = "") -> bool:
        row = await self._table.get(id)
        if row is None or row.revoked_at is not None:
            return False
        await self._audit.note(by, "token.revoke", id, {"user": row.user, "role": row.role}, token=token)
        await self._table.put(_row(replace(_token(row), revoked_at=self._now())), ("revoked_at",))
        return True


def _row(token: Token) -> TokenRow:
    return TokenRow(**{name: _stored(value) for name, value in asdict(token).items()})


def _stored(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, tuple) else value


def _token(row: TokenRow) -> Token:
    known: dict[str, Any] = asdict(row)
    names = {name: tuple(msgspec.json.decode(known[name], type=list[str])) for name in ("agents", "approval_roles")}
    return Token(**{**known, **names})
