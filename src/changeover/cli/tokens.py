"""Command `tokens`: make, list and revoke the tokens of a server's callers."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from changeover.cli.exits import Mistake, errors_reported, say, tell
from changeover.cli.options import JsonOption, StoreOption, in_store
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from changeover.relay.ports.tokens import Token

app = App("Make, list and revoke tokens, by which a server knows its callers.")

Role = Literal["viewer", "operator", "approver", "admin", "worker"]
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
PERIOD = re.compile(rf"(\d+)([{''.join(UNITS)}])")


def _period(value: str | None) -> str | None:
    if value is not None and not PERIOD.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not a period, such as 12h or 90d")
    return value


@app.command()
def add(  # noqa: PLR0913 - each is a declared option
    user: Annotated[str, typer.Argument(metavar="USER", help="The owner of the conversations that it begins.")],
    role: Annotated[Role, typer.Option("--role", metavar="ROLE", help=f"What it may do. {among(Role)}")],
    *,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="PERIOD", callback=_period, help="When it ends: 12h, 90d. Default: never."),
    ] = None,
    see_all: Annotated[bool, typer.Option("--all", help="It sees the conversations of all users.")] = False,
    approval_role: Annotated[
        list[str] | None,
        typer.Option(
            "--approval-role",
            metavar="NAME",
            help="A role in which its user decides, where a request needs one. May be repeated.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="ID", help="An agent whose tickets a worker claims. May be repeated."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token, and print its secret, which is shown only once."""
    from changeover.cli.terminal.prompt import user_name
    from changeover.cli.terminal.render import print_json
    from changeover.relay.ports.tokens import NewToken

    wanted = NewToken(
        user=user,
        role=role,
        agents=tuple(agent or ()),
        approval_roles=tuple(approval_role or ()),
        everything=see_all,
        expires_at=time.time() + _seconds(expires) if expires else None,
    )
    token, secret = in_store(store, lambda opened: opened.tokens.issue(wanted, by=user_name()))
    if as_json:
        print_json({"id": token.id, "secret": secret})
        return
    say(secret)
    tell(f"This is the secret of {token.id}, and it is shown once. Callers send it as: Authorization: Bearer SECRET")


@app.command("list")
def list_tokens(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List tokens: user, role, and when they were last used."""
    from changeover.cli.terminal.render import as_data, print_json, print_table, when, without_empty

    found = in_store(store, lambda opened: opened.tokens.all())
    if as_json:
        print_json([{name: value for name, value in as_data(each).items() if name != "digest"} for each in found])
        return
    rows = [
        {
            "token": each.id,
            "status": _status(each),
            "user": each.user,
            "role": each.role,
            "sees": "everything" if each.everything else "",
            "decides as": " or ".join(each.approval_roles),
            "agents": ", ".join(each.agents),
            "created": when(each.created_at),
            "expires": when(each.expires_at),
            "used": when(each.used_at) or "never",
        }
        for each in found
    ]
    print_table(without_empty(rows), "no tokens", spare=("created", "sees", "decides as", "agents"))


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of a token, not its secret.")],
    store: StoreOption = None,
) -> None:
    """Revoke a token: the server refuses it from now on."""
    from changeover.cli.terminal.prompt import user_name

    revoked = in_store(store, lambda opened: opened.tokens.revoke(id, by=user_name()))
    with errors_reported():
        if not revoked:
            raise Mistake(f"there is no valid token {id!r}; see: changeover tokens list")
    say(f"{id} is revoked")


def _seconds(period: str) -> float:
    found = PERIOD.fullmatch(period)
    assert found is not None
    return float(found[1]) * UNITS[found[2]]


def _status(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= time.time() else "valid"
