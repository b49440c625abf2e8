"""The tables of `metrics`: short numbers, durations and bars."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from changeover.observe.metrics import AgentMetrics, PairMetrics, Times

EIGHTHS = "▏▎▍▌▋▊▉█"
WIDE = 100
"""From how many columns on there is room for everything."""


class Form:
    """How figures are written where they are shown: in a pipe without bars, on a narrow terminal only the first."""

    def __init__(self, out: Console) -> None:
        self._draws = out.is_terminal and out.encoding.lower().startswith("utf")
        self._wide = not out.is_terminal or out.width >= WIDE
        self._which, self._longest = (" p50/p95", 5) if self._wide else ("", 3)

    def agents(self, agents: Mapping[str, AgentMetrics]) -> list[dict[str, str]]:
        """What each agent was handed, and what it spent."""
        rows = self._rows("agent", agents)
        # Where nobody handed over anything, that they worked is all there is to say.
        alone = not any(each.count for each in agents.values())
        for row, each in zip(rows, agents.values(), strict=True):
            if alone:
                row["runs"] = f"{each.runs:,}"
            row["tokens"] = _short(each.tokens)
            if self._wide:
                row["cost"] = f"${each.cost:.2f}" if each.cost else ""
                row["sent"] = f"{each.sent:,}" if each.sent else ""
            sent = 0 if self._wide else each.sent
            row["besides"] = _besides(each, sent, each.breaker_openings)
        return rows

    def pairs(self, pairs: Mapping[str, PairMetrics]) -> list[dict[str, str]]:
        """What each handed to each."""
        rows = self._rows("from → to", pairs)
        for row, each in zip(rows, pairs.values(), strict=True):
            row["besides"] = _besides(each)
        return rows

    def _rows(self, title: str, found: Mapping[str, PairMetrics]) -> list[dict[str, str]]:
        most = max(each.count for each in found.values())
        width = len(f"{most:,}")
        return [
            {
                title: name,
                "handoffs": f"{each.count:>{width},}{self._bar(each.count / most)}" if each.count else "",
                "success": self._rate(each.success_rate),
                f"accepted{self._which}": self._times(each.latency),
                f"worked{self._which}": self._times(each.work_time),
            }
            for name, each in found.items()
        ]

    def _rate(self, rate: float | None) -> str:
        if rate is None:
            return ""
        # Never rounded to what is not so: one failure among many is one.
        percent = min(round(100 * rate), 99) if rate < 1 else 100
        return f"{max(percent, 1) if rate else 0:>3}%{self._bar(rate)}"

    def _times(self, times: Times) -> str:
        if times.p50 is None or times.p95 is None:
            return ""
        half = duration(times.p50)
        return f"{half} / {duration(times.p95)}" if self._wide else half

    def _bar(self, share: float) -> str:
        if not self._draws:
            return ""
        eighths = max(round(share * self._longest * 8), 1) if share else 0
        whole, rest = divmod(eighths, 8)
        return f" {EIGHTHS[-1] * whole}{EIGHTHS[rest - 1] if rest else ''}"


def duration(seconds: float) -> str:
    """A length of time, in one unit and two or three digits."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f}ms"
    if seconds < 99.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    if seconds < 5970:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 72 * 3600 else f"{seconds / 86_400:.0f}d"


def _short(count: int) -> str:
    """A large number in three digits."""
    for least, unit in ((999_500_000, "G"), (999_500, "M"), (1_000, "k")):
        if count >= least:
            value = count / {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{value:.1f}{unit}" if value < 99.95 else f"{value:.0f}{unit}"
    return str(count or "")


def _besides(each: PairMetrics, sent: int = 0, openings: int = 0) -> str:
    """What else there is to say, which for most is nothing."""
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
