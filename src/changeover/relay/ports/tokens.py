"""Tokens: the secrets by which callers of a server prove who they are, the roles that they have, and the audit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from hmac import compare_digest
from math import isfinite
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

Role = Literal["worker", "viewer", "operator", "approver", "admin"]
"""A viewer reads, an operator starts and stops work, an approver also decides about requests, an admin may do
everything; each may do what those before it may. A worker only claims tickets, and only of its agents."""

ROLES: tuple[str, ...] = get_args(Role)
PREFIX = "chg"
"""The first part of a secret, by which scanners for leaked secrets know it."""
EACH_USE = 60.0
"""Seconds for which a further use of a token is not recorded."""


class NewToken(Struct, frozen=True, kw_only=True):
    """The properties of a token that is to be made."""

    user: str
    """The user to whom the conversations belong that are begun with it."""
    role: Role
    agents: tuple[str, ...] = ()
    """The agents whose tickets a worker claims; any other role has none."""
    approval_roles: tuple[str, ...] = ()
    """The roles in which its user decides about requests, where `Approval(roles=…)` asks for one."""
    everything: bool = False
    """True if its user sees the conversations of all users. Approvers and admins always do."""
    expires_at: float | None = None
    """In seconds since the epoch; None is never."""

    def faults(self, now: float) -> list[str]:
        """The reasons why there can be no such token, one text each."""
        found = [] if self.user.strip() else ["a token needs the name of its user"]
        if self.role not in ROLES:
            found.append(f"{self.role!r} is no role; there are: {', '.join(ROLES)}")
        if self.role == "worker" and not self.agents:
            found.append("the token of a worker names the agents whose tickets it claims")
        if self.role != "worker" and self.agents:
            found.append(f"only the token of a worker names agents, not that of a {self.role}")
        if any(not name.strip() for name in (*self.agents, *self.approval_roles)):
            found.append("the names of agents and of roles are not empty")
        if self.expires_at is not None and not (isfinite(self.expires_at) and self.expires_at > now):
            found.append("a token expires in the future")
        return found


class Token(NewToken, frozen=True, kw_only=True):
    """A token as a store keeps it: its secret is only a digest."""

    id: str
    digest: str
    created_at: float
    used_at: float | None = None
    """When it was last used, to within a minute."""
    revoked_at: float | None = None

    def refusal(self, secret: str, now: float) -> str:
        """Why this secret is refused now; empty if it is valid."""
        if not compare_digest(self.digest, digest_of(secret)):
            return UNKNOWN
        return self.lapse(now)

    def lapse(self, now: float) -> str:
        """Why this token does not hold any more; empty if it does."""
        if self.revoked_at is not None:
            return "the token was revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "the token has expired"
        return ""


UNKNOWN = "the token is not known"


class Audited(Struct, frozen=True, kw_only=True):
    """One change of a declaration or a token, and who made it."""

    id: str
    at: float
    actor: str
    """The user who made it."""
    token: str
    """The id of the token with which it was made; empty if none was needed."""
    action: str
    """What was done, such as "token.revoke"."""
    subject: str
    """The id of what was changed."""
    detail: dict[str, Any] = {}


class Audit(Protocol):
    """The audit of a store. Rows are added, and never changed or removed; `Lists` reads them."""

    async def note(
        self, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None, *, token: str = ""
    ) -> None:
        """Add an action of `actor`, with the current time."""
        ...


class Tokens(Protocol):
    """The tokens of a store. Each change is audited."""

    async def all(self) -> list[Token]:
        """All of them without their digests, revoked and expired ones included, oldest first."""
        ...

    async def issue(self, wanted: NewToken, *, by: str, token: str = "") -> tuple[Token, str]:
        """Make a token; the second value is its secret, which no one can read again. Raises MisconfiguredError."""
        ...

    async def holder(self, secret: str) -> Token:
        """The token with this secret, if it is valid now; its use is recorded. Raises TokenRefused."""
        ...

    async def revoke(self, id: str, *, by: str, token: str = "") -> bool:
        """Refuse a token from now on; False if there is none, or it was revoked before."""
        ...


def secret_of(id: str, random: str) -> str:
    """The secret of a token. It holds the id, by which the token is found before digests are compared."""
    return f"{PREFIX}_{id}_{random}"


def id_in(secret: str) -> str:
    """The id of the token that a secret belongs to; empty if it is no secret."""
    prefix, _, rest = secret.partition("_")
    return rest.partition("_")[0] if prefix == PREFIX and secret.isascii() else ""


def digest_of(secret: str) -> str:
    """The digest of a secret, which a store keeps. A plain hash will do: the secret is random and too long to be
    guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
