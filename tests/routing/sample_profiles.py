"""Profiles of eight agents, each described in one sentence, and candidates for a task."""

from __future__ import annotations

from changeover.routing.broker import Recommendation
from changeover.routing.profile import Profile

PROFILES = (
    Profile(
        "billing",
        description="Settles invoices, payments and refunds.",
        capabilities=("refunds", "invoicing"),
    ),
    Profile(
        "technical",
        description="Finds out why the app crashes, is slow or refuses a login.",
        capabilities=("bug reports", "account recovery"),
        examples=("The screen stays blank after the update.",),
    ),
    Profile(
        "shipping",
        description="Tracks parcels and arranges deliveries and returns.",
        capabilities=("tracking",),
        examples=("Where is my order?",),
    ),
    Profile(
        "legal",
        description="Reviews contracts and answers questions about privacy and licences.",
        specialization="contract law",
        capabilities=("contract-review", "gdpr"),
    ),
    Profile(
        "people",
        description="Looks after staff: holidays, payroll, hiring and onboarding.",
        specialization="human resources",
        capabilities=("payroll", "hiring"),
    ),
    Profile(
        "data",
        description="Turns tables into charts and reports.",
        specialization="data analysis",
        capabilities=("python", "sql", "charts"),
    ),
    Profile(
        "editor",
        description="Drafts and corrects newsletters, press releases and blog posts.",
        capabilities=("copywriting", "proofreading"),
    ),
    Profile(
        "travel",
        description="Books flights, hotels and trains for business trips.",
        capabilities=("flights", "hotels"),
        examples=("I have to be in Lisbon by Tuesday noon.",),
    ),
)


def candidate(agent: str, score: float = 1.0, why: str = "") -> Recommendation:
    return Recommendation(agent, score, why, "text")
