"""What a model is shown of a function, whether what it wrote fits, and what cannot be shown at all."""

import functools
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from weakref import ref

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from changeover.guards.approval import Approvable, Approval
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.function_schema import Schema, compile_tool
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Tool, tool
from tests.toolkits.function_call import CONTEXT, definitions, outcome_of, returning


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Order(BaseModel):
    """An order of a customer."""

    model_config = ConfigDict(strict=True)

    id: int
    on: date
    title: str = ""


@dataclass
class Address:
    street: str
    zip: int = 0


# What the model is told


def test_definitions_come_in_the_order_of_declaration():
    def b() -> None: ...
    def a() -> None: ...

    toolkit = AgentToolkit([b, tool(name="c")(a), a])
    assert [definition.name for definition in definitions(toolkit)] == ["b", "c", "a"]


def test_the_schema_says_types_defaults_and_what_is_required_without_titles():
    def ship(
        order: Order,
        to: list[Address],
        colour: Colour,
        speed: Literal["slow", "fast"] = "slow",
        title: str | None = None,
    ) -> None:
        """Ship an order.

        :param order: What to ship.
        :param speed: How fast."""

    (definition,) = definitions(AgentToolkit([ship]))
    assert definition.description == "Ship an order."
    parameters = definition.parameters
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert parameters["required"] == ["order", "to", "colour"]
    assert parameters["properties"]["speed"] == {
        "type": "string",
        "enum": ["slow", "fast"],
        "default": "slow",
        "description": "How fast.",
    }
    assert parameters["properties"]["title"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert parameters["properties"]["order"]["description"] == "What to ship."
    assert parameters["$defs"]["Colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert parameters["$defs"]["Order"]["properties"]["title"] == {"type": "string", "default": ""}
    assert "title" not in parameters["$defs"]["Order"]


def test_a_single_model_stays_a_parameter_with_its_name():
    def ship(order: Order) -> None:
        """Ship it."""

    (definition,) = definitions(AgentToolkit([ship]))
    assert list(definition.parameters["properties"]) == ["order"]
    assert definition.description == "Ship it."


def test_a_declared_description_comes_before_the_docstring():
    @tool(description="Give money back.")
    def refund() -> None:
        """Internal."""

    (definition,) = definitions(AgentToolkit([refund]))
    assert definition.description == "Give money back."


def test_a_default_that_json_cannot_show_is_valid():
    def search(limit: Annotated[Any, Field(description="how many")] = object()) -> None: ...  # noqa: B008

    (definition,) = definitions(AgentToolkit([search]))
    assert definition.parameters["properties"] == {"limit": {"description": "how many"}}


# What the model wrote


async def test_arguments_arrive_as_the_declared_types():
    def ship(order: Order, to: list[Address], colour: Colour, price: Decimal, tags: set[str]) -> str:
        return f"{order.on.year} {to[0].zip + 1} {colour.name} {price} {sorted(tags)}"

    outcome = await outcome_of(
        ship,
        order={"id": 1, "on": "2024-05-01"},
        to=[{"street": "Main", "zip": "7"}],
        colour="red",
        price="1.50",
        tags=["b", "a"],
    )
    assert outcome == ToolOutcome("2024 8 RED 1.50 ['a', 'b']")


async def test_defaults_fill_what_the_model_left_out_and_are_never_shared():
    def add(item: str, items: list[str] = [], *, limit: int = Field(default=3, ge=1)) -> str:  # noqa: B006
        items.append(item)
        return f"{items} {limit}"

    toolkit = AgentToolkit([add])
    assert (await toolkit.call("add", {"item": "a"}, CONTEXT)).text == "['a'] 3"
    assert (await toolkit.call("add", {"item": "b"}, CONTEXT)).text == "['b'] 3"


async def test_a_field_without_a_default_is_required():
    def add(item: str = Field(description="which")) -> str:
        return item

    toolkit = AgentToolkit([add])
    assert toolkit.tools()[0].definition.parameters["required"] == ["item"]
    assert (await toolkit.call("add", {"item": "a"}, CONTEXT)).text == "a"
    assert not (await toolkit.call("add", {}, CONTEXT)).ok


async def test_arguments_that_do_not_fit_are_explained_field_by_field_with_what_there_is():
    def refund(order: int, amount: float, note: str = "") -> None: ...

    outcome = await outcome_of(refund, order="seven", ammount=3)
    assert not outcome.ok
    assert outcome.text.startswith("the arguments of refund do not fit: ")
    assert "order: Input should be a valid integer" in outcome.text
    assert "amount: Field required" in outcome.text
    assert "ammount: Extra inputs are not permitted" in outcome.text
    assert outcome.text.endswith("it takes order, amount, note (optional)")


async def test_a_fault_deep_inside_an_argument_is_named_by_its_path():
    def ship(to: list[Address]) -> None: ...

    outcome = await outcome_of(ship, to=[{"street": "a"}, {"street": "b", "zip": "x"}])
    assert "to[1].zip: Input should be a valid integer" in outcome.text


async def test_of_a_thousand_faults_only_a_few_are_shown():
    def ship(to: list[int]) -> None: ...

    outcome = await outcome_of(ship, to=["x"] * 1000)
    assert "and 990 more" in outcome.text
    assert len(outcome.text) < 1500


async def test_the_valid_parameters_are_listed_however_many_faults_there_are():
    def refund(order: int) -> None: ...

    outcome = await outcome_of(refund, **{"x" * 100_000: 1})
    assert outcome.text.endswith("it takes order")
    assert len(outcome.text) < 2_500


async def test_a_function_without_parameters_says_so():
    outcome = await outcome_of(returning(1), order=3)
    assert outcome.text.endswith("it takes no arguments")


async def test_arguments_with_lone_surrogates_do_not_fit():
    def echo(text: str) -> str:
        return text

    assert not (await outcome_of(echo, text="\ud800")).ok


async def test_an_exception_of_a_validator_is_a_failure_and_not_a_misfit():
    class Fussy(BaseModel):
        id: int

        @field_validator("id")
        @classmethod
        def check(cls, id: int) -> int:
            raise LookupError("no database")

    def get(what: Fussy) -> None: ...

    assert await outcome_of(get, what={"id": 1}) == ToolOutcome("get failed: LookupError: no database", ok=False)


# What is wrong with a declaration


def undescribable_class(connection: socket.socket, order: int) -> None: ...
def undescribable_function(then: Callable[[], int]) -> None: ...
def undescribable_context(runs: list[RunContext]) -> None: ...
def star(*orders: int) -> None: ...
def reserved(_handoff_from: str) -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def fine() -> None: ...


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (undescribable_class, ["'connection'", "socket.socket", "JSON cannot describe", "functools.partial"]),
        (undescribable_function, ["'then'", "JSON cannot describe"]),
        (undescribable_context, ["'runs'", "RunContext", "JSON cannot describe"]),
        (star, ["*orders", "take a list instead"]),
        (reserved, ["'_handoff_from'", "reserved", "rename it"]),
        (generator, ["one by one", "return them as a list"]),
        (async_generator, ["one by one", "return them as a list"]),
        (tool(retries=-1)(fine), ["'fine'", "retries=-1", "use 0 or"]),
        (tool(timeout=0)(fine), ["'fine'", "timeout=0", "above 0"]),
        (tool(timeout=float("nan"))(fine), ["'fine'", "timeout=nan"]),
        (tool(max_result=0)(fine), ["'fine'", "max_result=0", "1 or more"]),
        (tool(at_most_once=True, retries=1)(fine), ["'fine'", "at_most_once", "retries=1", "contradict"]),
        (Tool(function=fine, name="fine", retries="3"), ["'fine'", "retries='3'"]),  # type: ignore[arg-type]
        (tool(approval="yes")(fine), ["'fine'", "approval='yes'", "give True, a function"]),  # type: ignore[call-overload]
        (tool(approval=Approval(expires=0))(fine), ["'fine'", "expires=0", "above 0"]),
        ("fine", ["'fine'", "cannot be called", "declare a function"]),
        (None, ["None", "cannot be called"]),
        (Tool(function=3, name="three"), ["'three'", "cannot be called"]),  # type: ignore[arg-type]
        (dict, ["'dict'", "signature"]),
    ],
)
def test_a_fault_says_which_tool_what_and_what_to_do(declared: Any, words: list[str]):
    (fault,) = AgentToolkit([declared]).faults
    assert fault.startswith("tool ")
    for word in words:
        assert word in fault


def test_all_faults_of_all_tools_are_found_at_once_and_valid_tools_are_kept():
    toolkit = AgentToolkit([tool(retries=-1, timeout=-1, max_result=-1)(star), fine, reserved, undescribable_class])
    assert len(toolkit.faults) == 6
    assert [definition.name for definition in definitions(toolkit)] == ["fine"]


def test_at_most_once_without_retries_is_no_fault():
    assert AgentToolkit([tool(at_most_once=True)(fine)]).faults == []


@pytest.mark.parametrize("approval", [None, True, lambda ctx, arguments: True, Approval(expires=60)])
def test_a_tool_may_ask_a_person_first(approval: Approvable):
    for declared in (tool(approval=approval)(fine), tool(fine, approval=approval)):
        assert declared.approval is approval
        assert AgentToolkit([declared]).faults == []


def test_a_tool_needs_no_approval_unless_it_is_declared():
    assert tool(fine).approval is None


def test_what_json_cannot_describe_can_be_bound():
    bound = functools.partial(undescribable_class, connection=socket.socket.__new__(socket.socket))
    toolkit = AgentToolkit([Tool(function=bound, name="send")])
    assert toolkit.faults == []
    assert list(toolkit.tools()[0].definition.parameters["properties"]) == ["order"]


def test_a_function_is_described_once_however_many_tools_are_made_of_it():
    def look(order: str) -> str:
        """Look up an order."""
        return order

    first, again = compile_tool(tool(look)), compile_tool(tool(read_only=True)(look))
    assert isinstance(first, Schema)
    assert isinstance(again, Schema)
    assert again.validator is first.validator
    assert again.definition.read_only
    renamed = compile_tool(tool(name="find", description="Find it.")(look))
    assert isinstance(renamed, Schema)
    assert (renamed.definition.name, renamed.definition.description) == ("find", "Find it.")


def test_a_function_whose_docstring_changed_is_described_again():
    def look(order: str) -> str:
        """Look up an order."""
        return order

    compile_tool(tool(look))
    look.__doc__ = "Look up a parcel."
    found = compile_tool(tool(look))
    assert isinstance(found, Schema)
    assert found.definition.description == "Look up a parcel."


def test_the_description_of_a_function_is_dropped_with_the_function():
    def look(order: str) -> str:
        """Look up an order."""
        return order

    compile_tool(tool(look))
    gone = ref(look)
    del look
    gc.collect()
    assert gone() is None
