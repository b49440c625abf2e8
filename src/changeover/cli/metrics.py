"""Command `metrics`: metrics per agent, per pair of agents and per step of a workflow in a time window."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import one_line, tell
from changeover.cli.options import JsonOption, OpenStore, StoreOption, in_store

if TYPE_CHECKING:
    from rich.console import Console

    from changeover.observe.metrics import AgentMetrics, Metrics, PairMetrics
    from changeover.observe.step_metrics import StepMetrics
    from changeover.observe.sums import Times

WIDE = 100
"""The width of a terminal from which on all columns are shown."""
UNUSUAL = ("failed", "skipped", "compensated", "cancelled")
"""Ends of steps that are shown if there are any."""
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def window_seconds(value: str | None) -> float | None:
    """The seconds of a window such as 90s, 15m, 1h, 7d or 2w."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", value.strip())
    if not found or not (seconds := float(found[1]) * UNITS[found[2]]) or seconds == inf:
        raise typer.BadParameter(f"{value!r} is not a duration, such as 90s, 15m, 1h or 7d", param_hint="--window")
    return seconds


def metrics(
    window: Annotated[
        str | None, typer.Option("--window", metavar="TIME", help="Only the last 90s, 15m, 1h, 7d or 2w.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent and its pairs.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the success, durations, tokens and cost of handoffs.

    There is a row for each agent, for each pair of agents, and for each step of a workflow.
    """
    seconds = window_seconds(window)

    async def find(opened: OpenStore) -> Metrics:
        from changeover.observe.metrics import measured, window_of

        return await measured(opened.lists.measures, *window_of(seconds, time.time()))

    found = in_store(store, find)
    agents = {name: each for name, each in found.agents.items() if agent in (None, name)}
    pairs = {pair: each for pair, each in found.pairs.items() if agent is None or agent in pair}
    if as_json:
        _print_json(found, agents, pairs, agent is None)
    elif agents:
        _print(agents, pairs, found.steps if agent is None else {})
    else:
        tell(_nothing(window, agent))


def _nothing(window: str | None, agent: str | None) -> str:
    span = (window or "").strip()
    when = f" in the last {span}{'s' if span[-1:].isdigit() else ''}" if span else " yet"
    return f"{agent} has no handoffs{when}" if agent else f"no agent has worked in this store{when}"


def _print_json(
    found: Metrics,
    agents: Mapping[str, AgentMetrics],
    pairs: Mapping[tuple[str, str], PairMetrics],
    whole: bool,
) -> None:
    import msgspec

    from changeover.cli.terminal.render import json_time, print_json

    data: dict[str, Any] = {
        "since": json_time(found.since),
        "until": json_time(found.until),
        "agents": msgspec.to_builtins(agents),
        "pairs": [
            {"sender": pair[0], "receiver": pair[1], **msgspec.to_builtins(each)} for pair, each in pairs.items()
        ],
    }
    steps = [{"workflow": at[0], "step": at[1], **msgspec.to_builtins(each)} for at, each in found.steps.items()]
    print_json(data | ({"steps": steps, "totals": msgspec.to_builtins(found.totals)} if whole else {}))


def _print(
    agents: Mapping[str, AgentMetrics],
    pairs: Mapping[tuple[str, str], PairMetrics],
    steps: Mapping[tuple[str, str], StepMetrics],
) -> None:
    from changeover.cli.exits import console
    from changeover.cli.terminal.render import print_table, without_empty

    out = console()
    table = MetricsTable(out)
    print_table(without_empty(table.agents(agents)), "")
    if pairs:
        out.print()
        named = {one_line(f"{sender} → {receiver}"): each for (sender, receiver), each in pairs.items()}
        print_table(without_empty(table.pairs(named)), "")
    if steps:
        out.print()
        print_table(without_empty(table.steps({one_line(" ".join(at)): each for at, each in steps.items()})), "")


class MetricsTable:
    """The rows of the tables: without bars in a pipe, with fewer columns on a narrow terminal."""

    def __init__(self, out: Console) -> None:
        from changeover.cli.terminal.render import is_unicode

        self._has_bars = out.is_terminal and is_unicode(out)
        self._wide = not out.is_terminal or out.width >= WIDE
        self._percentiles, self._bar_width = (" p50/p95", 5) if self._wide else ("", 3)

    def agents(self, agents: Mapping[str, AgentMetrics]) -> list[dict[str, str]]:
        """A row per agent: the handoffs that it received, and its tokens and cost."""
        rows = self._rows("agent", agents)
        # Without any handoff, the number of runs is the only count.
        alone = not any(each.count for each in agents.values())
        for row, each in zip(rows, agents.values(), strict=True):
            if alone:
                row["runs"] = f"{each.runs:,}"
            row["tokens"] = _short(each.tokens)
            if self._wide:
                row["cost"] = f"${each.cost:.2f}" if each.cost else ""
                row["sent"] = f"{each.sent:,}" if each.sent else ""
            sent = 0 if self._wide else each.sent
            row["other"] = _other(each, sent, each.breaker_openings)
        return rows

    def pairs(self, pairs: Mapping[str, PairMetrics]) -> list[dict[str, str]]:
        """A row per pair of sender and receiver."""
        rows = self._rows("from → to", pairs)
        for row, each in zip(rows, pairs.values(), strict=True):
            row["other"] = _other(each)
        return rows

    def steps(self, steps: Mapping[str, StepMetrics]) -> list[dict[str, str]]:
        """A row per step of a workflow."""
        return [
            {
                "workflow step": name,
                "runs": f"{each.count:,}",
                "success": self._rate(each.success_rate),
                f"took{self._percentiles}": self._times(each.elapsed),
                "retries": f"{each.retries:,}" if each.retries else "",
                "tokens": _short(each.tokens),
                "cost": f"${each.cost:.2f}" if self._wide and each.cost else "",
                "other": ", ".join(f"{count:,} {ending}" for ending in UNUSUAL if (count := getattr(each, ending))),
            }
            for name, each in steps.items()
        ]

    def _rows(self, title: str, found: Mapping[str, PairMetrics]) -> list[dict[str, str]]:
        most = max(each.count for each in found.values())
        width = len(f"{most:,}")
        return [
            {
                title: name,
                "handoffs": f"{each.count:>{width},}{self._bar(each.count / most)}" if each.count else "",
                "success": self._rate(each.success_rate),
                f"accepted{self._percentiles}": self._times(each.latency),
                f"worked{self._percentiles}": self._times(each.work_time),
            }
            for name, each in found.items()
        ]

    def _rate(self, rate: float | None) -> str:
        if rate is None:
            return ""
        # Never rounded to 0 or 100: one failure among many is still a failure.
        percent = min(round(100 * rate), 99) if rate < 1 else 100
        return f"{max(percent, 1) if rate else 0:>3}%{self._bar(rate)}"

    def _times(self, times: Times) -> str:
        if times.p50 is None or times.p95 is None:
            return ""
        half = duration(times.p50)
        return f"{half} / {duration(times.p95)}" if self._wide else half

    def _bar(self, share: float) -> str:
        from changeover.cli.terminal.render import bar

        return f" {bar(share, self._bar_width, blocks=True)}" if self._has_bars else ""


def duration(seconds: float) -> str:
    """A duration in one unit, with two or three digits."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f}ms"
    if seconds < 99.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    if seconds < 5970:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 72 * 3600 else f"{seconds / 86_400:.0f}d"


def _short(count: int) -> str:
    """A large number with three digits and a unit."""
    for least, unit in ((999_500_000, "G"), (999_500, "M"), (1_000, "k")):
        if count >= least:
            value = count / {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{value:.1f}{unit}" if value < 99.95 else f"{value:.0f}{unit}"
    return str(count or "")


def _other(each: PairMetrics, sent: int = 0, openings: int = 0) -> str:
    """The counts that are rarely above 0."""
    refused = each.refused - each.deadlocks
    counts = {
        "sent": sent,
        "open": each.open,
        "failed": each.failed,
        "rejected": each.rejected,
        "timed out": each.timeouts,
        "withdrawn": each.withdrawn,
        "refused": refused,
        "deadlock" if each.deadlocks == 1 else "deadlocks": each.deadlocks,
        "outage" if openings == 1 else "outages": openings,
    }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
