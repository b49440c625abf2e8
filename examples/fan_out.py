"""Fan-out: one agent works on four tasks in parallel, and another makes one answer of the results.

The host is a Function member. First it sends a taster to each tea; each works in a conversation of its own. When
all have returned, the host is called again and finds their results in `ctx.returned`, in the order of sending. One of
them fails here; its error is one result among the others. Then the host hands over to the writer, who makes one answer
of the results. Replies are scripted: no key, no network.

    python examples/fan_out.py
"""

from collections.abc import Sequence

from changeover import Agent, Command, Function, RunContext, Send, Team
from changeover.models import Message, Note, ToolDefinition
from changeover.testing import Reply, ScriptedModel, fails, says

TASTES = {"Assam": "malty", "Darjeeling": "flowery", "Sencha": "grassy"}
TEAS = ["Assam", "Darjeeling", "Lapsang", "Sencha"]
SECONDS = 0.5


def host(ctx: RunContext) -> Command:
    """Send one taster per tea, then the writer."""
    if not ctx.returned:
        return Command(goto=[Send("taster", {"tea": tea}, task=f"Taste the {tea}.") for tea in TEAS])
    said = {
        tea: result.response or f"no result: {result.error}" for tea, result in zip(TEAS, ctx.returned, strict=True)
    }
    good = [f"{tea} {result.response}" for tea, result in zip(TEAS, ctx.returned, strict=True) if result.success]
    return Command(goto="writer", update={"context": {"tastings": said}}, message=", ".join(good))


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The replies of the models: a taster about its tea, the writer about all results."""
    if agent == "writer":
        [told] = [message.text for message in messages if isinstance(message, Note)]
        return says(f"Of {len(TEAS)} teas we could taste {told.count(',') + 1}: {told}.")
    tea = messages[-1].text.removeprefix("Taste the ").removesuffix(".")
    return says(TASTES[tea]) if tea in TASTES else fails("the smoke alarm went off", retryable=False)


def main() -> None:
    taster = Agent("taster", instructions="Taste one tea, and say how it tastes in one word.")
    writer = Agent("writer", instructions="Make one answer of what the tasters say.")
    team = Team([Function("host", host), taster, writer], model=ScriptedModel(play, latency=SECONDS))
    request = "How do they taste?"
    result = team.run_sync(request)
    print(f"{request}\n")
    for handoff in result.handoff_chain:
        tea = handoff.variables.get("tea", "")
        print(
            f"  {handoff.sender} ──▶ {handoff.receiver}  {tea:<10}  {result.context['tastings'].get(tea, '')}".rstrip()
        )
    print(f"\n{result.final_agent}: {result.output}\n")
    print(f"  Five replies of {SECONDS} s each took {result.ledger.elapsed:.1f} s: the tasters worked at once.")


if __name__ == "__main__":
    main()
