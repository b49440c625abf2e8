"""Command `init`: create a small project with a team, a test and a README."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from changeover.cli.exits import Mistake, errors_reported, say

TEAM = '''"""A support desk: triage finds out what the customer needs, and hands over to the right agent."""

from changeover import Agent, Team, Variable, handoff, tool


@tool(read_only=True)
def payments(order_id: str) -> str:
    """Look up the payments for an order."""
    return f"order {order_id}: 24.95 EUR at 09:14, 24.95 EUR at 09:16"


@tool(approval=True)
def refund(order_id: str) -> str:
    """Send money back for an order."""
    return f"24.95 EUR of order {order_id} sent back"


to_billing = handoff(
    "billing",
    description="Payments, invoices, charges and refunds.",
    variables=[Variable("order_id", required=False, description="The number of the order.")],
)

triage = Agent(
    "triage",
    instructions="Find out what the customer needs. Hand over to the agent that can help.",
    handoffs=[to_billing, "technical"],
)
billing = Agent(
    "billing",
    description="Payments, invoices, charges and refunds.",
    instructions="Look at the payments before you answer. Refund what was paid twice.",
    tools=[payments, refund],
    handoffs=["triage"],
)
technical = Agent(
    "technical",
    description="Errors, crashes, login and installation.",
    instructions="Help with the product, one step at a time.",
    handoffs=["triage"],
)

# "offline" needs no key and no network. For a real model write its name, such as "openai:gpt-5".
team = Team([triage, billing, technical], model="offline")
'''

TEST = '''"""What the team does, without a model: a script says what each agent answers."""

import asyncio

from changeover import Team
from changeover.testing import ScriptedModel, hands_off, says
from team import billing, technical, triage


def test_a_double_charge_ends_at_billing() -> None:
    script = {
        "triage": [hands_off("billing", "Charged twice.", order_id="1042")],
        "billing": [says("I can see both payments.")],
    }
    result = asyncio.run(Team([triage, billing, technical], model=ScriptedModel(script)).run("I was charged twice"))
    assert result.final_agent == "billing"
    assert result.output == "I can see both payments."
    assert [(each.sender, each.receiver) for each in result.handoff_chain] == [("triage", "billing")]
    assert result.context["order_id"] == "1042"
'''

README = """# {name}

A team of agents that hand work to one another, made with Changeover.

| File | What it is |
| --- | --- |
| `team.py` | the agents, their tools and their handoffs |
| `test_team.py` | a test that needs no model |

## Try it

    changeover run team.py "I was charged twice for order 1042"
    changeover chat team.py
    changeover graph team.py

In the chat, type "Please refund order 1042": a refund waits for your approval. Conversations are kept in
`changeover.db`:

    changeover conversations
    changeover handoffs
    changeover approvals

## Test it

    pip install pytest
    python -m pytest

## Use a real model

Replace `model="offline"` in `team.py` with a name such as `"openai:gpt-5"`, install its extra
(`pip install 'changeover[openai]'`) and set its key. `changeover doctor` says what is missing.
"""

IGNORED = "changeover.db*\n__pycache__/\n.pytest_cache/\n"
FILES = {"team.py": TEAM, "test_team.py": TEST, "README.md": README, ".gitignore": IGNORED}


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The folder to create.")],
) -> None:
    """Create a small project with a team, a test and a README.

    The team works offline. Existing files are never overwritten.
    """
    with errors_reported():
        folder = Path(name)
        if not name or not re.fullmatch(r"[A-Za-z0-9._ -]+", folder.resolve().name):
            raise Mistake(f"{name!r} is not a usable name for a project; use letters, digits, '.', '_' and '-'")
        taken = [file for file in FILES if (folder / file).exists()] if folder.is_dir() else []
        if taken or (folder.exists() and not folder.is_dir()):
            raise Mistake(f"{folder / taken[0] if taken else folder} exists already; nothing was written")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in FILES.items():
                (folder / file).write_text(text.replace("{name}", folder.resolve().name), encoding="utf-8")
        except OSError as error:
            raise Mistake(f"{folder} cannot be created: {error.strerror}") from error
    say(f"Created {folder}: {', '.join(FILES)}. Next:")
    say(f"\n  cd {shlex.quote(str(folder))}")
    say('  changeover run team.py "I was charged twice for order 1042"\n  changeover chat team.py\n  python -m pytest')
