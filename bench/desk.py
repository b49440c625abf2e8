"""The team of the bench of the server: two agents that take two seconds each for an answer."""

from __future__ import annotations

from changeover import Agent, Limits, Team, tool
from changeover.messages import Reply
from changeover.relay.ports.world import Request
from changeover.testing import ScriptedModel, calls, hands_off, says
from changeover.tools.command import Command

PAUSE = 2.0
SCRIPT = {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("All of it was sent back.")] * 2_000}


class Forgetful(ScriptedModel):
    """Keeps no list of its requests, which would grow for as long as the server runs."""

    async def reply(self, request: Request) -> Reply:
        self.requests.clear()
        return await super().reply(request)


team = Team([Agent("triage"), Agent("billing", handoffs=())], model=Forgetful(SCRIPT, latency=PAUSE))
quick = Team([Agent("billing")], model=Forgetful(SCRIPT))
STEPS = 2_500
"""Steps of a long run, each of two events."""


@tool
def count(number: int) -> Command:
    """Count."""
    return Command(update={"number": number, f"counter_{number % 12}": number})


LONG = {"counter": [*(calls(("count", {"number": number})) for number in range(STEPS)), says("Done.")]}
long = Team(
    [Agent("counter", tools=[count])], model=Forgetful(LONG), limits=Limits(max_turns=STEPS + 1, max_handoffs=1)
)
