"""Command `router`: show and reset what routing has learned about agents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import one_line, say, tell
from changeover.cli.options import JsonOption, StoreOption, in_store
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.routing.experience import Standing

app = App("Show and reset what the router has learned about agents.")

BAR_WIDTH = 10

CapabilityOption = Annotated[str | None, typer.Option("--capability", metavar="NAME", help="Only this capability.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent.")]


@app.command("list")
def list_standings(
    capability: CapabilityOption = None,
    agent: AgentOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how well agents did, by capability, the best first.

    The range is the 90 % interval of the worth.
    """
    from changeover.engines.lessons import standings

    found = in_store(store, lambda opened: standings(opened.experience, capability, agent))
    if as_json:
        _print_json(found)
    else:
        _print(found)


@app.command("reset")
def reset_learning(capability: CapabilityOption = None, agent: AgentOption = None, store: StoreOption = None) -> None:
    """Forget the outcomes of past tasks.

    Without options, of all capabilities and agents. Conversations are kept.
    """
    from changeover.engines.lessons import reset

    gone = in_store(store, lambda opened: reset(opened.experience, time.time(), capability, agent))
    if not gone:
        tell("nothing to forget; see: changeover router")
    for each in gone:
        say(f"{each.tasks} {'task' if each.tasks == 1 else 'tasks'} of {each.agent} at {each.capability} forgotten")


def _print_json(found: list[Standing]) -> None:
    import msgspec

    from changeover.cli.terminal.render import print_json

    print_json(msgspec.to_builtins(found))


def _print(found: list[Standing]) -> None:
    from changeover.cli.terminal.render import bar, print_table

    rows = [
        {
            "capability": one_line(each.capability),
            "agent": each.agent,
            "tasks": str(each.tasks),
            "successes": str(each.successes),
            "worth": f"{each.worth:.2f} {bar(each.worth, BAR_WIDTH)}",
            "range": f"{each.low:.2f}-{each.high:.2f}",
            "seconds": "" if each.seconds is None else f"{each.seconds:.1f}",
            "cost": "" if each.cost is None else f"${each.cost:.4f}",
        }
        for each in found
    ]
    print_table(rows, "no routed task has an outcome yet")
