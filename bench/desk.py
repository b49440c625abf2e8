"""The team of the bench of the server: two agents that take two seconds each for an answer."""

from __future__ import annotations

from changeover import Agent, Team
from changeover.messages import Reply
from changeover.relay.ports import Request
from changeover.testing import ScriptedModel, hands_off, says

PAUSE = 2.0
SCRIPT = {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("All of it was sent back.")] * 2_000}


class Forgetful(ScriptedModel):
    """Keeps no list of its requests, which would grow for as long as the server runs."""

    async def reply(self, request: Request) -> Reply:
        self.requests.clear()
        return await super().reply(request)


team = Team([Agent("triage"), Agent("billing", handoffs=())], model=Forgetful(SCRIPT, latency=PAUSE))
quick = Team([Agent("billing")], model=Forgetful(SCRIPT))
