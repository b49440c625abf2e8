"""Test your own teams: a scripted model, a clock that the test moves, a check that histories are complete.

```python
from changeover import Agent, Team
from changeover.testing import ScriptedModel, assert_valid_history, hands_off, says


async def test_a_refund_ends_at_billing():
    model = ScriptedModel({"triage": [hands_off("billing", "charged twice")], "billing": [says("Refunded.")]})
    async with Team([Agent("triage"), Agent("billing")], model=model) as team:
        result = await team.run("I was charged twice")
    assert (result.final_agent, result.output) == ("billing", "Refunded.")
    for request in model.requests:
        assert_valid_history(request)
```
"""

from changeover.agent.moves import GENERIC_TOOL
from changeover.facts import Usage
from changeover.messages import Assistant, Call, Note, Reply, ToolResult, User
from changeover.testing import crash
from changeover.testing.checkers import assert_valid_history
from changeover.testing.clock import ManualClock
from changeover.testing.scripted import ScriptedModel, calls, delegates, fails, hands_off, says

__all__ = [
    "GENERIC_TOOL",
    "Assistant",
    "Call",
    "ManualClock",
    "Note",
    "Reply",
    "ScriptedModel",
    "ToolResult",
    "Usage",
    "User",
    "assert_valid_history",
    "calls",
    "crash",
    "delegates",
    "fails",
    "hands_off",
    "says",
]
