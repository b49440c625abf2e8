"""Command `breakers`: list the circuit breakers of a store, and open or reset them by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import say, tell
from changeover.cli.options import JsonOption, StoreOption, for_agent, in_store
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.faults import Circuit

app = App("List, open and reset the circuit breakers of receivers.")

ReceiverArgument = Annotated[str, typer.Argument(metavar="RECEIVER", help="The id of the agent.")]


@app.command("list")
def list_breakers(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the receivers that failed or were opened by hand: state, failures in a row, and number of outages."""
    found = in_store(store, lambda opened: opened.breakers.listed())
    if as_json:
        _print_json(found)
    else:
        _print(found)


@app.command("open")
def open_breaker(receiver: ReceiverArgument, store: StoreOption = None) -> None:
    """Open a breaker: the receiver gets no handoffs until it is reset."""
    for_agent(store, receiver, lambda opened: opened.breakers.force(receiver, time.time()))
    say(f"{receiver} gets no handoffs; to change that: changeover breakers reset {receiver}")


@app.command("reset")
def reset_breaker(receiver: ReceiverArgument, store: StoreOption = None) -> None:
    """Reset a breaker: the receiver gets handoffs again at once."""
    if in_store(store, lambda opened: opened.breakers.reset(receiver, time.time())):
        say(f"{receiver} gets handoffs again")
    else:
        tell(f"{receiver!r} has no failures; see: changeover breakers list")


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
            "retry": _retry(each, now),
        }
        for each in found
    ]
    print_table(rows, "no receiver has failed")


def _retry(circuit: Circuit, now: float) -> str:
    """When an open breaker lets a handoff through again."""
    from changeover.cli.terminal.render import when

    if circuit.forced:
        return "after a reset"
    if circuit.until is None:
        return ""
    if circuit.until <= now:
        return "with the next handoff"
    return f"now, by {circuit.probe}" if circuit.probe else when(circuit.until)
