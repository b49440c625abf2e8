"""A team whose members all come from the store: the tests of the builders declare it in the browser."""

from __future__ import annotations

import os
from typing import Any

from changeover.messages import Assistant, Reply, User
from changeover.relay.ports.world import Request
from changeover.team import Team
from changeover.testing import ScriptedModel, calls, says

VALUES: dict[str, Any] = {"lead_id": "L-7", "campaign_type": "spring", "budget": 500}
"""What the model knows; it fills in those that a handoff asks for."""


def reply(request: Request) -> Reply:
    """Hand over whatever is a lead, with all variables that the tool has; else answer."""
    last = max(index for index, each in enumerate(request.messages) if isinstance(each, User))
    asked = request.messages[last]
    done = any(isinstance(each, Assistant) and each.agent == request.agent for each in request.messages[last:])
    ways = [each for each in request.tools if each.name.startswith("handoff_to_")]
    if "lead" in asked.text and ways and not done:
        wanted = ways[0].parameters["properties"]
        return calls((ways[0].name, {name: VALUES[name] for name in wanted}), text="A lead for you.")
    return says(f"{request.agent} follows up.")


team = Team(model=ScriptedModel(reply), name="shop", store=os.environ["STORE"])
