"""One call of one function, as an agent's toolkit makes it."""

from typing import Any

from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn, ToolDefinition

CONTEXT = RunContext(conversation="c1", run="r1", agent="billing", command="7", user="ana")


async def outcome_of(fn: Fn, /, **args: Any) -> ToolOutcome:
    toolkit = AgentToolkit([fn], backoff=0.001)
    assert toolkit.faults == []
    return await toolkit.call(toolkit.tools()[0].definition.name, args, CONTEXT)


def definitions(toolkit: AgentToolkit) -> list[ToolDefinition]:
    """What a model is shown of these tools."""
    return [tool.definition for tool in toolkit.tools()]


def returning(value: Any) -> Fn:
    def give() -> Any:
        return value

    return give


def raising(error: BaseException) -> Fn:
    def fail() -> None:
        raise error

    return fail
