"""The figures that `team.metrics(…)` returns, and what a run has spent (`result.ledger`)."""

from changeover.facts import Ledger, Share
from changeover.observe.metrics import AgentMetrics, Metrics, PairMetrics
from changeover.observe.periods import Period
from changeover.observe.step_metrics import StepMetrics
from changeover.observe.sums import Times

__all__ = [
    "AgentMetrics",
    "Ledger",
    "Metrics",
    "PairMetrics",
    "Period",
    "Share",
    "StepMetrics",
    "Times",
]
