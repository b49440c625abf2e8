"""The desk of the demo: three agents, two tools, two declared handoffs, and the script that stands in for a model.

Inside this package names come from their rooms; your own code says `from changeover import Agent, Team, handoff`.
"""

from __future__ import annotations

from changeover.agent.agent import Agent
from changeover.agent.handoff import handoff
from changeover.agent.variable import Variable
from changeover.team import Team
from changeover.testing import ScriptedModel, calls, hands_off, says
from changeover.tools.context import RunContext
from changeover.tools.tool import tool

PAYMENTS = {"1042": {"pay_71": "24.95 EUR at 09:14", "pay_72": "24.95 EUR at 09:16"}}


@tool(read_only=True)
def payments(order_id: str) -> str:
    """Every payment that was made for an order."""
    return ", ".join(f"{id} {about}" for id, about in PAYMENTS[order_id].items())


@tool(at_most_once=True)
def refund(payment_id: str, ctx: RunContext) -> str:
    """Send a payment back to the customer."""
    # Nobody has to write these again: triage, billing and the caller put them into the context.
    order, amount, email = (ctx.context[name] for name in ("order_id", "amount", "email"))
    return f"{amount} EUR of order {order} sent back, receipt to {email}"


to_billing = handoff(
    "billing",
    description="For anything about payments.",
    variables=[Variable("order_id"), Variable("reason", description="What is wrong, in two or three words.")],
)
to_refunds = handoff(
    "refunds",
    description="For a payment that has to go back.",
    variables=[Variable("payment_id"), Variable("amount", type="number")],
    instructions="Billing has checked the payment. Do not ask the customer about it again.",
)

AGENTS = [
    Agent("triage", instructions="Find out what the customer needs, and who can do it.", handoffs=[to_billing]),
    Agent("billing", instructions="Look at the payments.", tools=[payments], handoffs=[to_refunds, "triage"]),
    Agent("refunds", instructions="Send payments back.", tools=[refund], handoffs=["triage"]),
]

SCRIPT = {
    "triage": [
        hands_off(
            "billing",
            "Sorry about that! Billing can see both payments: over to them.",
            order_id="1042",
            reason="charged twice",
        ),
    ],
    "billing": [
        calls(("payments", {"order_id": "1042"})),
        hands_off(
            "refunds",
            "You are right: pay_72 repeats pay_71 two minutes later. I am asking refunds to send it back.",
            payment_id="pay_72",
            amount=24.95,
        ),
    ],
    "refunds": [
        calls(("refund", {"payment_id": "pay_72"})),
        says(
            "Done. 24.95 EUR are on their way back to your card, and a receipt to ada@example.org. "
            "Banks take up to three days."
        ),
        says("Look for 'REFUND 1042'. It comes as a line of its own; the two payments stay as they are."),
    ],
}

CUSTOMER = {"email": "ada@example.org"}
MESSAGES = [
    "I was charged twice for order 1042. Can I have one payment back?",
    "Thank you! What will it say on my statement?",
]


def desk(latency: float = 0.0) -> Team:
    """The team; each reply of its scripted model takes `latency` seconds."""
    return Team(AGENTS, start="triage", model=ScriptedModel(SCRIPT, latency=latency))
