"""One call of one function, as an agent's toolkit makes it."""

from typing import Any

from changeover.relay.ports import ToolOutcome
from changeover.toolkits.function import FunctionToolkit
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn

CONTEXT = RunContext(conversation="c1", run="r1", agent="billing", command="7", user="ana")


async def outcome_of(fn: Fn, /, **args: Any) -> ToolOutcome:
    toolkit = FunctionToolkit([fn], backoff=0.001)
    assert toolkit.faults == []
    return await toolkit.call(toolkit.definitions()[0].name, args, CONTEXT)


def returning(value: Any) -> Fn:
    def give() -> Any:
        return value

    return give


def raising(error: BaseException) -> Fn:
    def fail() -> None:
        raise error

    return fail
