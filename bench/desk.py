"""The team of the bench of the server: two agents that take two seconds each for an answer."""

from __future__ import annotations

from changeover import Agent, Team
from changeover.testing import ScriptedModel, hands_off, says

PAUSE = 2.0
SCRIPT = {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("All of it was sent back.")] * 2_000}

team = Team([Agent("triage"), Agent("billing", handoffs=())], model=ScriptedModel(SCRIPT, latency=PAUSE))
quick = Team([Agent("billing")], model=ScriptedModel(SCRIPT))
