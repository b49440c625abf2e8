"""The team of the demo, a support desk of five agents and a rule, and the script that replaces its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.agent.agent import Agent, Function, Member
from changeover.agent.handoff import delegate, handoff
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approval, Approve, Decision, Edit
from changeover.handoffs.answers import Rejected
from changeover.handoffs.package import HandoffPackage
from changeover.messages import Assistant, Message, Reply, User
from changeover.relay.ports.world import Ask, Clock
from changeover.stores.store import Store
from changeover.team import Team
from changeover.testing import calls, delegates, hands_off, says
from changeover.tools.command import Command
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition, tool
from changeover.tools.variable import Variable
from changeover.workflows.workflow import Workflow, WorkflowStep

MAX_REFUND, MAX_GOODWILL = 100, 20
"""In EUR: the largest refund by billing, and the largest order for which a rule grants goodwill."""
PAYMENTS = {
    "1042": "pay_71 24.95 EUR at 09:14, pay_72 24.95 EUR at 09:16",
    "1077": "pay_80 112.00 EUR on Monday",
}
FINDINGS = {
    "e42": "error E42: the session is older than the last update of the app",
    "1042": "order 1042: the page answered late at 09:14, and the app sent the payment again",
    "log": "login: five wrong passwords, so the account rests for ten minutes",
    "crash": "crash: the app stops when its cache is full",
    "slow": "slow pages: the nearest server answers in 2.1 seconds instead of 0.2",
}
MANUALS = {
    "e42": "Errors, p. 12: sign out, update the app, sign in again. E42 does not come back",
    "twice": "Terms, 7.2: a double charge is refunded within three days",
    "refund": "Terms, 7.1: a payment can be sent back for 30 days",
    "password": "Login, p. 3: the mail with the new password comes within ten minutes; look into the spam too",
    "install": "Start, p. 1: download, open, follow the three steps; it takes 200 MB",
    "compare": "Plans, p. 2: Basic has one user and 5 GB, Team has ten users and 100 GB",
}


def _page(book: dict[str, str], text: str, otherwise: str) -> str:
    return next((page for word, page in book.items() if word in text.lower()), otherwise)


@tool(read_only=True)
def payments(order_id: str) -> str:
    """Every payment that was made for an order: look there before a refund."""
    return PAYMENTS.get(order_id, f"there is no order {order_id}; this desk knows {' and '.join(PAYMENTS)}")


def needs_a_yes(ctx: RunContext, arguments: dict[str, Any]) -> bool:
    """True if a person must approve the refund."""
    return ctx.agent != "accounts"


@tool(approval=Approval(when=needs_a_yes, summary="Send {amount} EUR of {payment_id} back"), at_most_once=True)
def refund(payment_id: str, amount: float) -> str:
    """Send a payment back to the customer: a refund, money back."""
    return f"{amount:.2f} EUR of {payment_id} sent back"


@tool(read_only=True)
def diagnose(problem: str) -> str:
    """Look into the logs for the cause of a problem: an error, a crash, a failed login, a slow page."""
    return _page(FINDINGS, problem, "the logs of today show nothing unusual")


@tool(read_only=True)
def service_status() -> str:
    """Whether the service is up or has an outage."""
    return "all systems are up"


@tool(read_only=True)
def search_manuals(query: str) -> str:
    """Search manuals, terms and reports for a topic."""
    return _page(MANUALS, query, "the manuals say nothing about that")


def within_its_rights(package: HandoffPackage) -> Rejected | None:
    """Reject a handoff about more money than billing may refund."""
    too_much = package.context.variables.get("amount", 0) > MAX_REFUND
    return Rejected(f"it may send back {MAX_REFUND} EUR at most") if too_much else None


def goodwill(ctx: RunContext) -> str | Command:
    """Decide by a rule what a customer gets for the trouble."""
    if ctx.context.get("amount", 0) <= MAX_GOODWILL:
        return "The next delivery is free of charge."
    return Command(goto="billing", message=f"A gift for an order above {MAX_GOODWILL} EUR.")


TO_BILLING = handoff(
    "billing",
    description="For payments, invoices, refunds, prices, subscriptions and money back.",
    variables=[
        Variable("order_id", required=False),
        Variable("amount", type="number", required=False, description="In EUR."),
        Variable("reason", required=False, description="What is wrong, in a few words."),
    ],
    alternatives=["accounts"],
)
TRIAGE = Agent(
    "triage",
    name="Triage",
    instructions="Find out what the customer needs and who can do it. Money goes to billing, errors to technical.",
    description="Finds out what the customer needs",
    handoffs=[TO_BILLING, "technical", "research"],
)
BILLING = Agent(
    "billing",
    name="Billing",
    instructions="You look after payments, invoices and refunds.",
    description="Looks after payments, invoices, refunds, prices and subscriptions",
    capabilities=["payments", "refunds", "invoices", "cards"],
    examples=["I was charged twice", "Where is my invoice?"],
    tools=[payments, refund],
    accepts=within_its_rights,
    handoffs=[
        "triage",
        "technical",
        delegate("technical", description="Says whether a fault of our own shop is the cause."),
        delegate("research", description="Looks things up in manuals, terms, plans and markets."),
    ],
)
TECHNICAL = Agent(
    "technical",
    name="Technical",
    instructions="You solve technical problems with the app and the website.",
    description="Solves technical problems: errors, crashes, login, passwords, connection, installation, updates",
    capabilities=["errors", "login", "installation"],
    examples=["The app crashes", "I cannot log in"],
    tools=[diagnose, service_status],
    handoffs=["triage", TO_BILLING, delegate("research", description="Looks things up in manuals, terms, plans.")],
)
RESEARCH = Agent(
    "research",
    name="Research",
    instructions="You look things up in manuals, terms and reports.",
    description="Researches a topic: manuals, terms, facts, comparisons, markets, competitors, sources",
    capabilities=["manuals", "comparisons", "reports"],
    examples=["Compare the plans", "What do the terms say?"],
    tools=[search_manuals],
    handoffs=["triage", "billing", "technical"],
)
ACCOUNTS = Agent(
    "accounts",
    name="Accounts",
    instructions="You look after large payments, and after what customers get for their trouble.",
    description="Sends large amounts back",
    capabilities=["large refunds"],
    tools=[payments, refund],
    handoffs=[
        "triage",
        handoff("goodwill", description="What a customer gets for the trouble.", return_to="accounts"),
    ],
)
GOODWILL = Function(
    "goodwill", goodwill, name="Goodwill", description="Decides by a rule what a customer gets for the trouble"
)
MEMBERS: list[Member] = [TRIAGE, BILLING, TECHNICAL, RESEARCH, ACCOUNTS, GOODWILL]


def notice(ctx: RunContext) -> str:
    """What customers read about an incident."""
    credit = f" {ctx.context['credit']}" if ctx.context["credit"] else ""
    return f"We know of {ctx.context['problem']}. {ctx.context['manual']}{credit}"


INCIDENT = Workflow(
    "incident",
    name="Answer an incident",
    description="Find the cause and what the manuals say at the same time, decide about goodwill, and tell customers.",
    steps=[
        WorkflowStep("cause", agent="technical", input="Find the cause: customers report {inputs.problem}", retry=1),
        WorkflowStep("manual", agent="research", input="What do the manuals say about {inputs.problem}?"),
        WorkflowStep(
            "credit",
            function="goodwill",
            after=["cause"],
            when="inputs.amount",
            context={"amount": "inputs.amount"},
            input="Goodwill for orders of {inputs.amount} EUR",
            approval=Approval(summary="Goodwill for orders of {amount} EUR"),
        ),
        WorkflowStep(
            "notice",
            function=notice,
            after=["manual", "credit"],
            input="Tell the customers",
            context={"problem": "inputs.problem", "manual": "steps.manual.text", "credit": "steps.credit.text"},
        ),
    ],
)


def desk(
    model: Any = "offline",
    store: str | Store | None = None,
    ask: Ask | None = None,
    clock: Clock | None = None,
    workflows: Sequence[Workflow] = (),
) -> Team:
    """The team; by default with the offline model and in memory."""
    return Team(MEMBERS, start="triage", model=model, store=store, ask=ask, clock=clock, workflows=workflows)


CUSTOMER = "customer"
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
    """The next reply of the script. It depends only on the messages, so it is the same after a crash."""
    asker = next(each.author for each in reversed(messages) if isinstance(each, User))
    part = agent if asker in (User("").author, CUSTOMER) else f"{agent} for {asker}"
    return SCRIPT[part][sum(isinstance(each, Assistant) and each.agent == agent for each in messages)]


def judge(request: ApprovalRequest) -> Decision:
    """What a person decides in the script: yes, and large amounts are for accounts."""
    return Edit(receiver="accounts") if request.kind == "escalation" else Approve()
