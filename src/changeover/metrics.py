"""The figures that `team.metrics(…)` returns, and what a run has spent (`result.ledger`)."""

from changeover.facts import Ledger, Share
from changeover.observe.metrics import AgentMetrics, Metrics, PairMetrics, Times

__all__ = [
    "AgentMetrics",
    "Ledger",
    "Metrics",
    "PairMetrics",
    "Share",
    "Times",
]
