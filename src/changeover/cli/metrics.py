"""Command `metrics`: handoff metrics per agent and per pair of agents in a time window."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.conversations import filled, look
from changeover.cli.exits import tell
from changeover.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from changeover.observe.metrics import AgentMetrics, Metrics, PairMetrics
    from changeover.stores.views import Views

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def window_seconds(value: str | None) -> float | None:
    """How many seconds a window is long that was typed as 90s, 15m, 1h, 7d or 2w."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", value.strip())
    if not found or not (seconds := float(found[1]) * UNITS[found[2]]) or seconds == inf:
        raise typer.BadParameter(f"{value!r} is no length of time, such as 90s, 15m, 1h or 7d", param_hint="--window")
    return seconds


def metrics(
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="TIME", help="Only the last 90s, 15m, 1h, 7d.", show_default=False),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="ID", help="Only this one, and whom it works with.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how handoffs went, by agent and by pair: how many, how many of them succeeded, how long it took, at what
    cost."""
    seconds = window_seconds(window)

    async def find(views: Views) -> Metrics:
        from changeover.observe.metrics import measured, window_of

        return await measured(views.measures, *window_of(seconds, time.time()))

    found = look(store, find)
    agents = {name: each for name, each in found.agents.items() if agent in (None, name)}
    pairs = {pair: each for pair, each in found.pairs.items() if agent is None or agent in pair}
    if as_json:
        _print_json(found, agents, pairs, agent is None)
    elif agents:
        _print(agents, pairs)
    else:
        tell(_nothing(window, agent))


def _nothing(window: str | None, agent: str | None) -> str:
    when = f" in the last {window.strip()}" if window else " yet"
    return f"{agent} had nothing to do with a handoff{when}" if agent else f"nobody has worked here{when}"


def _print_json(
    found: Metrics,
    agents: Mapping[str, AgentMetrics],
    pairs: Mapping[tuple[str, str], PairMetrics],
    whole: bool,
) -> None:
    import msgspec

    from changeover.cli.terminal.render import json_time, print_json

    told: dict[str, Any] = {
        "since": json_time(found.since),
        "until": json_time(found.until),
        "agents": msgspec.to_builtins(agents),
        "pairs": [
            {"sender": pair[0], "receiver": pair[1], **msgspec.to_builtins(each)} for pair, each in pairs.items()
        ],
    }
    print_json(told | ({"totals": msgspec.to_builtins(found.totals)} if whole else {}))


def _print(agents: Mapping[str, AgentMetrics], pairs: Mapping[tuple[str, str], PairMetrics]) -> None:
    from changeover.cli.terminal.metrics_table import Form
    from changeover.cli.terminal.render import clean, console, print_table

    out = console()
    form = Form(out)
    named = {clean(name): each for name, each in agents.items()}
    print_table(filled(form.agents(named)), "")
    if pairs:
        out.print()
        ways = {f"{clean(sender)} → {clean(receiver)}": each for (sender, receiver), each in pairs.items()}
        print_table(filled(form.pairs(ways)), "")
