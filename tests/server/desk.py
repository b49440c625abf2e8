"""The team that the tests of the server use. What a user says decides what its agents do, in all conversations."""

from collections.abc import Sequence

from changeover import Agent, Approval, Team, delegate, handoff, tool
from changeover.messages import Assistant, Message, Reply, User
from changeover.testing import ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from changeover.workflows import Workflow, WorkflowStep


@tool(approval=True)
def refund(amount: float) -> str:
    """Send money back."""
    return f"{amount:.2f} EUR sent back"


@tool(approval=Approval(roles=["manager"]))
def close_account() -> str:
    """Close the account of the customer."""
    return "closed"


def reply(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The next reply of an agent: a new task is told by its last words, a later turn by what was done before."""
    said = next(each.text for each in reversed(messages) if isinstance(each, User))
    last = next(index for index, each in reversed(list(enumerate(messages))) if isinstance(each, User))
    turn = sum(isinstance(each, Assistant) and each.agent == agent for each in messages[last:])
    if "fail" in said:
        return fails("no line", retryable=False)
    if agent == "triage":
        return _triage(said, turn)
    if agent == "billing" and not turn:
        return calls(("refund", {"amount": 24.95}))
    if agent == "manager" and not turn:
        return calls(("close_account", {}))
    return says(f"{agent} has done it.")


def _triage(said: str, turn: int) -> Reply:
    if "refund" in said:
        return hands_off("billing", "A refund, please.")
    if "close" in said:
        return hands_off("manager", "Please close the account.")
    if "research" in said and not turn:
        return delegates("research", "Look it up.")
    return says("Hello.", thinking="A greeting.")


parcel = Workflow(
    "parcel",
    name="Take a parcel back",
    steps=[
        WorkflowStep("greet", agent="triage", input="Hello {inputs.name}"),
        WorkflowStep("label", agent="triage", after=["greet"], input="Hello again", when="inputs.label"),
        WorkflowStep("check", agent="triage", after=["greet"], approval=True, input="Hello, {inputs.words}"),
        WorkflowStep("thank", agent="triage", after=["label", "check"], input="Hello at last"),
    ],
)
team = Team(
    [
        Agent("triage", handoffs=[handoff("billing"), handoff("manager"), delegate("research")]),
        Agent("billing", description="Sends money back", capabilities=["refunds"], tools=[refund], handoffs=()),
        Agent("manager", description="Closes accounts", tools=[close_account], handoffs=()),
        Agent("research", description="Looks things up", pull=True, handoffs=()),
    ],
    name="desk",
    start="triage",
    model=ScriptedModel(reply),
    workflows=[parcel],
)
