"""Small teams that run on Temporal."""

from typing import Any

from changeover import Agent, Approval, Limits, Store, Team, delegate, tool
from changeover.relay.ports.engine import EngineFactory
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

LEASE = 3.0


def desk(url: str, engine: EngineFactory | None, **script: list[Any]) -> Team:
    """Triage hands over to billing."""
    script = script or {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("Sent back.")] * 20}
    return Team(
        [Agent("triage"), Agent("billing")], model=ScriptedModel(script), store=Store(url, lease=LEASE), engine=engine
    )


def payer(url: str, engine: EngineFactory | None, expires: float | None = None, times: int = 1) -> Team:
    """Triage pays, and asks a person each time."""

    @tool(approval=Approval(expires=expires) if expires else True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({"triage": [*[calls(("pay", {}))] * times, says("Done.")]})
    return Team([Agent("triage", tools=[pay])], model=model, store=Store(url, lease=LEASE), engine=engine)


def family(url: str, engine: EngineFactory, children: int) -> Team:
    """A lead gives each of its delegates a task at once."""
    tasks = calls(*(delegates(f"clerk-{number}", "count") for number in range(children)))
    clerks = [Agent(f"clerk-{number}", handoffs=()) for number in range(children)]
    lead = Agent("lead", handoffs=[delegate(clerk.id) for clerk in clerks])
    script = {"lead": [tasks, says("All are back.")], **{clerk.id: [says("One.")] for clerk in clerks}}
    limits = Limits(max_handoffs=1_000, max_turns=5_000, max_agents=1_000)
    return Team(
        [lead, *clerks], model=ScriptedModel(script), store=Store(url, lease=LEASE), engine=engine, limits=limits
    )
