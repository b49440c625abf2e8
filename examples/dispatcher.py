"""A dispatcher: plain Python decides which agent answers. It needs no model, so it is free and deterministic.

The dispatcher is a Function member. It reads the message and returns a Command: go to an agent, with context taken from
the message, or end the run with an answer. Replies are scripted: no key, no network.

    python examples/dispatcher.py
"""

import re

from changeover import END, Agent, Command, Function, RunContext, Team
from changeover.testing import ScriptedModel, says

DESKS = {"refund": "billing", "charged": "billing", "late": "shipping", "parcel": "shipping"}


def dispatch(ctx: RunContext) -> Command:
    """Send a customer to the right desk."""
    words = re.findall(r"\w+", ctx.input.lower())
    desk = next((DESKS[word] for word in words if word in DESKS), None)
    if desk is None:
        return Command(goto=END, update={"output": "Is it about a payment or about a parcel?"})
    order = re.search(r"\b\d{4}\b", ctx.input)
    return Command(goto=desk, update={"context": {"order": order[0]}} if order else {})


def members() -> list[Agent | Function]:
    # handoffs=(): a Command needs no declared handoff, and the desks cannot hand over.
    return [
        Function("dispatcher", dispatch),
        Agent("billing", instructions="Answer questions about payments.", handoffs=()),
        Agent("shipping", instructions="Answer questions about parcels.", handoffs=()),
    ]


SCRIPT = {"billing": [says("I have sent one payment back.")], "shipping": [says("It left Hamburg this morning.")]}
MESSAGES = ["I was charged twice for 1042!", "My parcel is late, order 2077.", "Hello?"]


def main() -> None:
    team = Team(members(), model=ScriptedModel(SCRIPT))
    for message in MESSAGES:
        result = team.run_sync(message)
        print(f"  customer  {message}")
        if result.handoff_chain:
            print(f"            ──▶ {result.final_agent}, who knows {dict(result.variables)}")
        print(f"{result.final_agent:>10}  {result.output}\n")


if __name__ == "__main__":
    main()
