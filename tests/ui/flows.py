"""A team with two workflows, for pictures of their pages. The words of the inputs decide what becomes of a run."""

from __future__ import annotations

import asyncio

from changeover import Agent, Person, Team
from changeover.messages import Reply, User
from changeover.relay.ports.world import Request
from changeover.testing import ScriptedModel, fails, says
from changeover.tools.run_context import RunContext
from changeover.workflows import Retry, Workflow, WorkflowStep

ORDERS = (1038, 1040, 1042, 1045, 1051)
FOUND = "handed over on 22 October, delivered nine days late"


def collect(ctx: RunContext) -> dict[str, list[str]]:
    """The orders whose parcels are late."""
    return {"orders": [f"order {number}" for number in ORDERS]}


def cancel_refund(ctx: RunContext) -> str:
    """Take a refund back."""
    return "the refund was cancelled"


async def reply(request: Request) -> Reply:
    """The answer of an agent, after a moment."""
    said = next(each.text for each in reversed(request.messages) if isinstance(each, User))
    await asyncio.sleep(0.05 * (1 + len(request.agent) % 4))
    if ("later" in said and request.agent == "billing") or ("fail" in said and request.agent == "accounts"):
        return fails("the carrier answered 503", retryable=False)
    answers = {
        "research": f"{said}: {FOUND}",
        "billing": "Five customers get their shipping back.",
        "goodwill": "24.75 EUR were sent back in five payments.",
        "triage": "Five customers were written to.",
    }
    return says(answers.get(request.agent, "The report is in the inbox of Accounts."))


parcels = Workflow(
    "parcels",
    name="Late parcel claims",
    description="Asks the carrier about late parcels, pays the shipping back and writes to the customers.",
    steps=[
        WorkflowStep("collect", function=collect, name="Collect orders"),
        WorkflowStep("check", agent="research", after=["collect"], for_each="steps.collect.output.orders", name="Ask"),
        WorkflowStep(
            "decide",
            agent="billing",
            after=["check"],
            name="Decide",
            input="Decide, {inputs.words}",
            retry=Retry(2, wait=900.0),
        ),
        WorkflowStep(
            "send_back", agent="goodwill", after=["decide"], name="Send back", approval=True, on_rollback=cancel_refund
        ),
        WorkflowStep("write", agent="triage", after=["decide"], name="Write to customers"),
        WorkflowStep(
            "report",
            agent="accounts",
            after=["send_back", "write"],
            name="Report",
            input="Report to {inputs.reader}, {inputs.words}",
        ),
    ],
)
digest = Workflow(
    "digest",
    name="Weekly digest",
    description="Sums up the complaints of the week for the people on duty.",
    steps=[
        WorkflowStep("read", agent="research", input="Complaints of {inputs.week}"),
        WorkflowStep("sum_up", agent="accounts", after=["read"], name="Sum up"),
        WorkflowStep("approve", agent="duty", after=["sum_up"], name="Approve"),
    ],
)
team = Team(
    [
        Agent("triage", name="Triage", description="Writes to customers", handoffs=()),
        Agent("billing", name="Billing", description="Charges and refunds", handoffs=()),
        Agent("research", name="Research", description="Carriers and logs", handoffs=()),
        Agent("goodwill", name="Goodwill", description="Sends back up to 100 EUR", handoffs=()),
        Agent("accounts", name="Accounts", description="Plans and reports", handoffs=()),
        Person("duty", name="Person on duty", description="Reads what goes out"),
    ],
    name="claims",
    start="triage",
    model=ScriptedModel(reply),
    workflows=[parcels, digest],
)
