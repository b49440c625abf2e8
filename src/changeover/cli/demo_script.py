"""The script of the demo: what the customer says, and the replies that stand in for a model's."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.messages import Assistant, Message, Reply, User
from changeover.testing import calls, delegates, hands_off, says
from changeover.tools.definition import ToolDefinition

MESSAGES = (
    "I was charged 24.95 EUR twice for order 1042. Can I have one payment back?",
    "Thank you! Since this morning the app shows error E42. What can I do?",
    "That worked! I sent order 1077 back: may I have my 112 EUR, and something for the trouble?",
)
ASKED_TECHNICAL = "Was the second payment of order 1042 our own mistake?"
ASKED_RESEARCH = "What do our terms say about paying twice?"
ASKED_MANUAL = "What does the manual say about E42?"

SCRIPT = {
    "triage": [
        hands_off(
            "billing",
            "Sorry about that! Billing can see your payments: over to them.",
            order_id="1042",
            amount=24.95,
            reason="charged twice",
        )
    ],
    "billing": [
        calls(("payments", {"order_id": "1042"})),
        calls(
            delegates("technical", ASKED_TECHNICAL),
            delegates("research", ASKED_RESEARCH),
            text="I see both payments. Two colleagues look at this with me, at the same time.",
        ),
        calls(
            ("refund", {"payment_id": "pay_72", "amount": 24.95}),
            text="It was our mistake, and our terms are clear. A refund needs a person's yes, so I ask for it.",
        ),
        says("Done: 24.95 EUR are on their way back to your card. Banks take up to three days."),
        hands_off(
            "technical", "Order 1042 is settled. Now the app shows E42.", text="Errors are for our technical desk."
        ),
    ],
    "technical": [
        calls(("diagnose", {"problem": "error E42"})),
        delegates("research", ASKED_MANUAL),
        says("Your session is older than the last update. Sign out, update the app and sign in again: E42 is gone."),
        hands_off("billing", "Money is for billing again.", order_id="1077", amount=112.0, reason="sent back"),
    ],
    "accounts": [
        calls(("refund", {"payment_id": "pay_80", "amount": 112.0}), text="Large amounts are ours."),
        hands_off("goodwill", "Your 112 EUR are on their way. For your trouble there is a rule."),
        says("The next month is on us. And I stay with you: whatever you write next comes to me."),
    ],
    "technical for billing": [
        calls(("diagnose", {"problem": "payment of order 1042"})),
        says("Yes. Our page answered late, and the app sent the payment again."),
    ],
    "research for billing": [
        calls(("search_manuals", {"query": "charged twice"})),
        says("Terms 7.2: it goes back within three days."),
    ],
    "research for technical": [
        calls(("search_manuals", {"query": "E42"})),
        says("Errors, page 12: sign out, update, sign in again."),
    ],
}


def line(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The reply that is due. It follows from the messages alone, so that it is the same after a crash."""
    asker = next(each.author for each in reversed(messages) if isinstance(each, User))
    part = agent if asker == User("").author else f"{agent} for {asker}"
    return SCRIPT[part][sum(isinstance(each, Assistant) and each.agent == agent for each in messages)]
