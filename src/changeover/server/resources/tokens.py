"""Tokens: the secrets of callers, which are shown once, and the audit of what callers change."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import asdict

from changeover.relay.ports.tokens import Audited, NewToken, Token
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Part, Resource, Served, Some, Who
from changeover.server.wire import Json, Page, body

resource = Resource("tokens")


class WantedToken(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The user, the role and the rights of a new token."""

    user: str
    """The user that owns the conversations that are begun with it."""
    role: Literal["worker", "viewer", "operator", "approver", "admin"]
    agents: tuple[str, ...] = ()
    """The agents whose tickets a worker claims; any other role has none."""
    approval_roles: tuple[str, ...] = ()
    """The roles in which its user decides about requests."""
    everything: bool = False
    """True if its user sees the conversations of all users."""
    expires_at: float | None = None
    """In seconds since the epoch; null is never."""


class TokenView(NewToken, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    created_at: float
    used_at: float | None
    """When it was last used, to within a minute."""
    revoked_at: float | None


class IssuedToken(Struct, frozen=True):
    """A new token. Its secret cannot be read again."""

    token: TokenView
    secret: str


@resource.route("GET /tokens", Page[TokenView])
async def list_tokens(team: Served, some: Some, user: Filter = None, role: Filter = None) -> Json:
    """All tokens, revoked and expired ones included, the oldest first."""
    found = [_view(each) for each in await team.log.tokens.all()]
    return some.page([each for each in found if user in (None, each.user) and role in (None, each.role)])


@resource.route("POST /tokens", {201: IssuedToken}, body=WantedToken)
async def add_token(team: Served, who: Who, wanted: Annotated[WantedToken, body(WantedToken)]) -> Json:
    """Make a token; its secret is shown only in this answer."""
    token, secret = await team.log.tokens.issue(NewToken(**asdict(wanted)), by=who.user, token=who.token)
    return Json(IssuedToken(_view(token), secret), 201)


@resource.route("DELETE /tokens/{id}", {204: None}, refusals={404: "There is no such token, or it was revoked before"})
async def revoke_token(id: Id, team: Served, who: Who) -> Json:
    """Refuse a token from now on."""
    if not await team.log.tokens.revoke(id, by=who.user, token=who.token):
        raise Problem(404, f"no valid token has the id {id!r}", kind="token-not-found")
    return Json(None, 204)


@resource.route("GET /audit", Page[Audited])
async def list_audit(
    team: Served, part: Part, actor: Filter = None, action: Filter = None, subject: Filter = None
) -> Json:
    """The audit: changes of tokens, declarations and other parts of the team, and refused calls, the newest first."""
    given = {"actor": actor, "action": action, "subject": subject}
    found = await team.log.lists.listed(Audited, {name: value for name, value in given.items() if value}, **part)
    return Json(Page(found, found.next))


def _view(token: Token) -> TokenView:
    return TokenView(**{name: value for name, value in asdict(token).items() if name != "digest"})
