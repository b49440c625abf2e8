"""Command `breakers`: list the circuit breakers of a store, and open or reset them by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.agents import at_agent
from changeover.cli.exits import tell
from changeover.cli.handoffs import at_store
from changeover.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from changeover.guards.breaker import Circuit

app = typer.Typer(help="Circuit breakers: who failed too often, and is left alone.", no_args_is_help=True)

ReceiverArgument = Annotated[
    str, typer.Argument(metavar="RECEIVER", help="The agent whose circuit it is.", show_default=False)
]


@app.command("list")
def list_breakers(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the receivers that ever failed: how each does now, how often it failed in a row, how often it fell out."""
    found = at_store(store, lambda log, views: log.breakers.listed())
    if as_json:
        _print_json(found)
    else:
        _print(found)


@app.command("open")
def open_breaker(receiver: ReceiverArgument, store: StoreOption = None) -> None:
    """Leave a receiver alone: nobody on this store hands over to it, until it is reset."""
    at_agent(store, receiver, lambda log: log.breakers.force(receiver, time.time()))
    typer.echo(f"{receiver} gets no handoffs until somebody types: changeover breakers reset {receiver}")


@app.command("reset")
def reset_breaker(receiver: ReceiverArgument, store: StoreOption = None) -> None:
    """Let a receiver have handoffs again at once, as if it had never failed."""
    if at_store(store, lambda log, views: log.breakers.reset(receiver, time.time())):
        typer.echo(f"{receiver} gets handoffs again")
    else:
        tell(f"nothing is amiss with {receiver!r}; see: changeover breakers list")


def _print_json(found: list[Circuit]) -> None:
    import msgspec

    from changeover.cli.terminal.render import json_time, print_json

    times = ("opened_at", "until")
    print_json(
        [
            {
                **{name: value for name, value in msgspec.to_builtins(each).items() if name != "closed_at"},
                **{name: json_time(getattr(each, name)) for name in times},
                "state": each.state,
            }
            for each in found
        ]
    )


def _print(found: list[Circuit]) -> None:
    from changeover.cli.terminal.render import print_table, when

    now = time.time()
    rows = [
        {
            "receiver": each.receiver,
            "state": each.state,
            "failures": str(each.failures),
            "outages": str(each.openings),
            "since": when(each.opened_at),
            "tried": _tried(each, now),
        }
        for each in found
    ]
    print_table(rows, "nobody has failed")


def _tried(circuit: Circuit, now: float) -> str:
    """When a receiver that is left alone is tried again."""
    from changeover.cli.terminal.render import when

    if circuit.forced:
        return "when somebody resets it"
    if circuit.until is None:
        return ""
    if circuit.until <= now:
        return "with the next handoff"
    return f"now, by {circuit.probe}" if circuit.probe else when(circuit.until)
