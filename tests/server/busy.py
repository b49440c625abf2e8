"""A team that takes a moment for each step, for servers that are stopped and killed meanwhile."""

import os

from changeover import Agent, Store, Team, handoff, tool
from changeover.testing import ScriptedModel, calls, hands_off, says

PAUSE = 0.1


@tool
def look() -> str:
    """Look it up."""
    return "found"


SCRIPT = {
    "triage": [hands_off("billing", "Charged twice.")],
    "billing": [calls(("look", {})), calls(("look", {})), says("All of it was sent back.")],
}
team = Team(
    [Agent("triage", handoffs=[handoff("billing")]), Agent("billing", tools=[look], handoffs=())],
    name="busy",
    model=ScriptedModel(SCRIPT, latency=PAUSE),
    store=Store(os.environ["STORE"], float(os.environ["LEASE"])),
)
