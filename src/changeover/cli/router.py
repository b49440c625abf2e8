"""Command `router`: show and reset what routing has learned about agents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import tell
from changeover.cli.handoffs import at_store
from changeover.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from changeover.routing.experience import Standing

app = typer.Typer(help="The router: how well agents did what they were found for.", no_args_is_help=True)

WIDTH = 10
"""Of the bar that shows what somebody is worth."""

CapabilityOption = Annotated[
    str | None, typer.Option("--capability", metavar="NAME", help="Only at this.", show_default=False)
]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this one.", show_default=False)]


@app.command("show")
def show_standings(
    capability: CapabilityOption = None,
    agent: AgentOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who did what how well: by capability, the best first. Between the numbers of the range its worth lies with a
    likelihood of 90 %."""
    from changeover.engines.lessons import standings

    found = at_store(store, lambda log, views: standings(log.experience, capability, agent))
    if as_json:
        _print_json(found)
    else:
        _print(found)


@app.command("reset")
def reset_learning(capability: CapabilityOption = None, agent: AgentOption = None, store: StoreOption = None) -> None:
    """Begin anew: what became of tasks until now counts no longer, at all capabilities and of all agents unless one is
    named. The conversations stay as they are."""
    from changeover.engines.lessons import reset

    gone = at_store(store, lambda log, views: reset(log.experience, time.time(), capability, agent))
    if not gone:
        tell("nothing was learnt of that; see: changeover router show")
    for each in gone:
        typer.echo(
            f"{each.tasks} {'task' if each.tasks == 1 else 'tasks'} of {each.agent} at {each.capability} forgotten"
        )


def _print_json(found: list[Standing]) -> None:
    import msgspec

    from changeover.cli.terminal.render import print_json

    print_json(msgspec.to_builtins(found))


def _print(found: list[Standing]) -> None:
    from changeover.cli.terminal.render import line_of, print_table

    rows = [
        {
            "capability": line_of(each.capability),
            "agent": each.agent,
            "tasks": str(each.tasks),
            "successes": str(each.successes),
            "worth": f"{each.worth:.2f} {_bar(each.worth)}",
            "range": f"{each.low:.2f}-{each.high:.2f}",
            "seconds": "" if each.seconds is None else f"{each.seconds:.1f}",
            "cost": "" if each.cost is None else f"${each.cost:.4f}",
        }
        for each in found
    ]
    print_table(rows, "nobody was looked for yet, or nothing has come of it")


def _bar(share: float) -> str:
    # Signs that every terminal and every encoding has.
    full = round(share * WIDTH)
    return "#" * full + "." * (WIDTH - full)
