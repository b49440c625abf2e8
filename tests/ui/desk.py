"""The team behind the browser tests. What a user says decides what its agents do, in all conversations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Person
from changeover.agent.handoff import delegate, handoff
from changeover.guards.approval import Approval
from changeover.guards.limits import Limits
from changeover.handoffs.answers import Rejected
from changeover.handoffs.package import HandoffPackage
from changeover.messages import Assistant, Reply, User
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.team import Team
from changeover.testing import ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.command import Command
from changeover.tools.run_context import RunContext
from changeover.tools.tool import tool
from changeover.tools.variable import Variable
from changeover.workflows.workflow import Workflow, WorkflowStep
from tests.ui.hostile import HOSTILE, NAME

FORMS = Path(__file__).parent / "skills/forms"
SENTENCE = "One word after another, so that a reader can follow the answer while it is written down. "
MARKDOWN = """Done. **24.95 EUR** are on their way (`pay_72`).

1. Banks take *up to three days*
2. See [the terms](https://example.org/terms)

| payment | EUR |
|---|---|
| pay_72 | 24.95 |

```python
print("<b>no HTML</b>")
```"""


@tool(read_only=True)
def payments(order_id: str) -> str:
    """Every payment of an order."""
    return f"order {order_id}: pay_71 24.95 EUR, pay_72 24.95 EUR"


@tool(approval=Approval(expires=3600, summary="Send {amount} EUR of {payment_id} back to the customer"))
def refund(payment_id: str, amount: float) -> str:
    """Send a payment back."""
    return f"{amount:.2f} EUR of {payment_id} sent back"


@tool(approval=Approval(roles=["manager"]))
def close_account() -> str:
    """Close the account."""
    return "closed"


@tool
async def look_up(topic: str) -> str:
    """Look something up."""
    if "slowly" in topic:
        await asyncio.sleep(2.0 if "log" in topic else 1.0)
    return f"the shelf has a book about {topic}"


@tool
def repeat(text: str) -> str:
    """Say the same again."""
    return text


def busy(package: HandoffPackage) -> Rejected:
    """Take nothing."""
    return Rejected("the shelves are full")


def to_library(ctx: RunContext) -> Command:
    """Send everybody to the library."""
    return Command(goto="library", message="A book, please.")


def about_order(ctx: RunContext) -> str:
    """Instructions that depend on the context."""
    return f"You look after order {ctx.context.get('order_id', 'none')}."


class PacedModel(ScriptedModel):
    """A scripted model that writes slowly if the user says so."""

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        pause = 0.02 if "slowly" in _said(request) else 0.0
        async for piece in super().stream(request):
            yield piece
            await asyncio.sleep(pause)


FAILED: Counter[str] = Counter()


def _said(request: Request) -> str:
    return next(each.text for each in reversed(request.messages) if isinstance(each, User))


def _turn(request: Request) -> int:
    """How often the agent has replied since the user spoke."""
    last = max(index for index, each in enumerate(request.messages) if isinstance(each, User))
    return sum(isinstance(each, Assistant) and each.agent == request.agent for each in request.messages[last:])


def _thinking(reply: Reply, thoughts: str) -> Reply:
    return replace(reply, thinking=thoughts)


def reply(request: Request) -> Reply:
    """The next reply of an agent."""
    said, turn = _said(request), _turn(request)
    if "fail once" in said:
        FAILED[request.conversation] += 1
        return fails("the line is down", retryable=False) if FAILED[request.conversation] == 1 else says("Here again.")
    if request.agent == "triage":
        return _triage(said, turn)
    parts = {
        "billing": [
            _thinking(calls(("payments", {"order_id": "1042"})), "Look before you pay."),
            calls(("refund", {"payment_id": "pay_72", "amount": 24.95}), text="One payment is too much."),
            says(MARKDOWN),
        ],
        "research": [calls(("look_up", {"topic": said})), says("The book says: within three days.")],
        "technical": [delegates("research", f"The log, {said}"), says("It was sent twice.")],
        "manager": [calls(("close_account", {})), says("The account is closed.")],
        "pong": [hands_off("triage", f"back {n}", ball=2 * n + 1) for n in range(30)],
    }
    return parts.get(request.agent, [says(f"{request.agent} has done it.")])[turn]


def _triage(said: str, turn: int) -> Reply:
    lines = {
        "charged twice": [hands_off("billing", "Billing sees your payments.", order_id="1042", reason="charged twice")],
        "close": [hands_off("manager", "Please close it.")],
        "everything": [
            calls(*(delegates(who, "slowly" if "slowly" in said else "all of it") for who in ("research", "technical")),
                  text="Two colleagues look at it."),
            says("All is well."),
        ],
        "crowd": [calls(*(delegates("research", f"part {n}") for n in range(50))), says("All are back.")],
        "form": [calls(("read_skill_file", {"skill": "forms", "path": "form.png"})), says("Here it is.")],
        "library": [hands_off("clerk", "A book, please.")],
        "colleague": [hands_off("colleague", "Please call the customer.")],
        "hostile": [
            _thinking(calls(("repeat", {"text": HOSTILE}), text=HOSTILE), HOSTILE),
            hands_off("mallory", HOSTILE, note=HOSTILE),
        ],
        "slowly": [says(SENTENCE * 6)],
        "ping": [*(hands_off("pong", f"ball {n}", ball=2 * n) for n in range(30)), says("Enough.")],
        "often": [*(calls(("repeat", {"text": f"word {n}"})) for n in range(250)), says("Done.")],
    }  # fmt: skip
    return next((found[turn] for word, found in lines.items() if word in said), says("Hello.", thinking="A greeting."))


def collect(ctx: RunContext) -> dict[str, list[str]]:
    """The orders whose parcels are late."""
    return {"orders": [f"order {number}" for number in (1038, 1042, 1045)]}


parcels = Workflow(
    "parcels",
    name="Late parcels",
    description="Looks up late parcels, and writes to the customers once a person agrees.",
    steps=[
        WorkflowStep("collect", function=collect, name="Collect orders"),
        WorkflowStep("check", agent="research", after=["collect"], for_each="steps.collect.output.orders"),
        WorkflowStep("gift", agent="library", after=["collect"], when="inputs.gift"),
        WorkflowStep("decide", agent="mallory", after=["check", "gift"], approval=True, input="decide, {inputs.words}"),
        WorkflowStep("report", agent="triage", after=["decide"], input="Hello, {inputs.reader}", retry=2),
    ],
)
team = Team(
    [
        Agent(
            "triage",
            name="Triage",
            description="Finds out what is needed",
            tools=[repeat],
            skills=[str(FORMS)],
            handoffs=[
                handoff("billing", variables=[Variable("order_id"), Variable("reason")]),
                handoff("mallory", variables=[Variable("note")]),
                handoff("manager", approval=True),
                handoff("pong", variables=[Variable("ball", type="integer")]),
                "clerk",
                "colleague",
                delegate("research"),
                delegate("technical"),
            ],
        ),
        Agent(
            "billing",
            name="Billing",
            description="Charges and refunds",
            instructions=about_order,
            tools=[payments, refund],
            handoffs=(),
        ),
        Agent("pong", name="Pong", handoffs=[handoff("triage", variables=[Variable("ball", type="integer")])]),
        Agent("research", name="Research", description="Looks things up", tools=[look_up], handoffs=()),
        Agent("technical", name="Technical", description="Errors", handoffs=[delegate("research")]),
        Agent("manager", name="Manager", description="Closes accounts", tools=[close_account], handoffs=()),
        Agent("library", name="Library", description="Lends books", accepts=busy, handoffs=()),
        Function("clerk", to_library, name="Clerk"),
        Agent("mallory", name=NAME, description=NAME, handoffs=()),
        Person("colleague", name="Colleague on duty", description="Calls customers"),
    ],
    name="desk",
    start="triage",
    limits=Limits(max_handoffs=100, max_turns=500),
    model=PacedModel(reply),
    workflows=[parcels],
)
