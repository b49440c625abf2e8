"""What the model is asked for, and what the run fills in; here every annotation is a string until it is read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn, Tool, tool
from tests.toolkits.function_call import CONTEXT, definitions

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass
class Order:
    id: int


def first(ctx: RunContext, order: int) -> str:
    """Refund an order.

    Args:
        ctx: The run.
        order: Which one.
    """
    return f"{ctx.user} {order}"


def last(order: int, ctx: RunContext) -> str:
    return f"{ctx.user} {order}"


def in_the_middle(order: int, ctx: RunContext, note: str = "") -> str:
    return f"{ctx.user} {order}{note}"


def optional(order: int, ctx: RunContext | None = None) -> str:
    return f"{ctx and ctx.user} {order}"


def optional_as_of_old(order: int, ctx: Optional[RunContext] = None) -> str:  # noqa: UP045
    return f"{ctx and ctx.user} {order}"


def annotated(ctx: Annotated[RunContext, "the run"], order: int) -> str:
    return f"{ctx.user} {order}"


def by_position_only(ctx: RunContext, order: int, /) -> str:
    return f"{ctx.user} {order}"


def by_name_only(*, order: int, ctx: RunContext) -> str:
    return f"{ctx.user} {order}"


async def awaited(order: int, ctx: RunContext) -> str:
    return f"{ctx.user} {order}"


def traced(fn: Fn) -> Fn:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


class Shop:
    """A shop."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def refund(self, order: int, ctx: RunContext) -> str:
        """Refund from the shop."""
        return f"{self.prefix}{ctx.user} {order}"

    async def refund_later(self, order: int, ctx: RunContext) -> str:
        return f"{self.prefix}{ctx.user} {order}"

    @staticmethod
    def refund_anywhere(order: int, ctx: RunContext) -> str:
        return f"{ctx.user} {order}"

    @classmethod
    def refund_everywhere(cls, order: int, ctx: RunContext) -> str:
        return f"{ctx.user} {order}"

    def __call__(self, order: int, ctx: RunContext) -> str:
        return f"{self.prefix}{ctx.user} {order}"


class LateShop:
    async def __call__(self, order: int, ctx: RunContext) -> str:
        return f"{ctx.user} {order}"


def for_tenant(tenant: str, order: int, ctx: RunContext) -> str:
    """Refund for a tenant."""
    return f"{ctx.user} {order} {tenant}".removesuffix(" acme")


WAYS: dict[str, Fn] = {
    "first": first,
    "last": last,
    "in the middle": in_the_middle,
    "optional": optional,
    "optional as of old": optional_as_of_old,
    "annotated": annotated,
    "by position only": by_position_only,
    "by name only": by_name_only,
    "async": awaited,
    "decorated": traced(first),
    "async, decorated": traced(awaited),
    "method": Shop().refund,
    "async method": Shop().refund_later,
    "static method of a class": Shop.refund_anywhere,
    "static method": staticmethod(last),
    "async static method": staticmethod(awaited),
    "class method": Shop.refund_everywhere,
    "callable object": Shop(),
    "async callable object": LateShop(),
    "partial": functools.partial(for_tenant, "acme"),
    "partial by name": functools.partial(for_tenant, tenant="acme"),
    "partial of a method": functools.partial(Shop().refund),
    "partial of an async function": functools.partial(awaited),
    "partial of a partial": functools.partial(functools.partial(for_tenant, tenant="other"), tenant="acme"),
    "partial with the name of its function": functools.update_wrapper(
        functools.partial(for_tenant, "acme"), for_tenant
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_run_context_is_filled_in_at_any_position_of_any_callable(way: str):
    toolkit = AgentToolkit([Tool(function=WAYS[way], name="refund")])
    assert toolkit.faults == []
    (definition,) = definitions(toolkit)
    assert definition.parameters["properties"]["order"]["type"] == "integer"
    assert not {"ctx", "tenant", "self"} & definition.parameters["properties"].keys()
    assert (await toolkit.call("refund", {"order": 7}, CONTEXT)).text == "ana 7"


async def test_a_parameter_without_a_type_takes_anything():
    toolkit = AgentToolkit([Tool(function=lambda order: f"{order}", name="refund")])
    assert toolkit.tools()[0].definition.parameters["properties"] == {"order": {}}
    assert (await toolkit.call("refund", {"order": [1]}, CONTEXT)).text == "[1]"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("forged", ["ctx", "tenant"])
async def test_a_model_cannot_set_what_it_is_not_shown(way: str, forged: str):
    toolkit = AgentToolkit([Tool(function=WAYS[way], name="refund")])
    outcome = await toolkit.call("refund", {"order": 7, forged: "mine"}, CONTEXT)
    assert not outcome.ok
    assert forged in outcome.text


async def test_a_model_cannot_set_it_through_double_star_arguments_either():
    def search(tenant: str, ctx: RunContext, **filters: str) -> str:
        return f"{tenant} {ctx.user} {filters}"

    toolkit = AgentToolkit([Tool(function=functools.partial(search, tenant="acme"), name="search")])
    assert (await toolkit.call("search", {"colour": "red"}, CONTEXT)).text == "acme ana {'colour': 'red'}"
    for forged in ("tenant", "ctx"):
        outcome = await toolkit.call("search", {forged: "mine"}, CONTEXT)
        assert not outcome.ok
        assert f"{forged}: there is no such parameter" in outcome.text


async def test_a_bound_context_is_not_replaced():
    other = RunContext(conversation="c2", run="r2", agent="billing", command="1", user="bob")
    toolkit = AgentToolkit([Tool(function=functools.partial(last, ctx=other), name="refund")])
    assert (await toolkit.call("refund", {"order": 7}, CONTEXT)).text == "bob 7"


def test_docstrings_describe_the_tool_and_its_parameters_and_never_the_context():
    (definition,) = definitions(AgentToolkit([first]))
    assert definition.description == "Refund an order."
    assert definition.parameters["properties"] == {"order": {"type": "integer", "description": "Which one."}}
    assert "ctx" not in repr(definition)


@pytest.mark.parametrize(
    ("fn", "description"),
    [
        (Shop().refund, "Refund from the shop."),
        (Shop(), "A shop."),
        (functools.partial(for_tenant, "acme"), "Refund for a tenant."),
        (traced(first), "Refund an order."),
        (last, ""),
    ],
)
def test_the_description_comes_from_the_docstring_of_any_callable(fn: Fn, description: str):
    (definition,) = definitions(AgentToolkit([Tool(function=fn, name="refund")]))
    assert definition.description == description


async def test_types_nested_in_strings_are_resolved():
    def ship(orders: list[Order], by: dict[str, Order]) -> str:
        return f"{[order.id for order in orders]} {by['x'].id}"

    outcome = await AgentToolkit([ship]).call("ship", {"orders": [{"id": 1}], "by": {"x": {"id": 2}}}, CONTEXT)
    assert outcome.text == "[1] 2"


async def test_a_return_type_that_only_type_checkers_know_does_no_harm():
    def price(order: int) -> Decimal:
        raise NotImplementedError

    assert AgentToolkit([price]).faults == []


def test_a_parameter_type_that_only_type_checkers_know_is_a_fault_that_names_it():
    def pay(amount: Decimal, order: int) -> None: ...

    (fault,) = AgentToolkit([pay]).faults
    assert fault.startswith("tool 'pay' has a parameter 'amount' whose type is unknown")
    assert "TYPE_CHECKING" in fault


def test_a_bound_parameter_needs_no_known_type():
    def pay(amount: Decimal, order: int) -> None: ...

    toolkit = AgentToolkit([Tool(function=functools.partial(pay, amount=3), name="pay")])  # type: ignore[arg-type]
    assert toolkit.faults == []


def test_a_method_without_its_object_is_a_fault():
    (fault,) = AgentToolkit([tool(Shop.refund)]).faults
    assert fault == "tool 'refund' is a method without its object; declare the method of an instance"


def test_all_faults_of_a_function_are_found_at_once():
    def odd(*orders: int, call: Callable[[], int], amount: Decimal, _handoff_from: str) -> None: ...

    words = ["*orders", "'amount'", "'_handoff_from'", "'call'"]
    for word, fault in zip(words, AgentToolkit([odd]).faults, strict=True):
        assert fault.startswith("tool 'odd' ")
        assert word in fault
