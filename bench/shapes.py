"""The tokens that the same work takes with one agent, with a swarm of three, and with a supervisor of three."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from bench import work
from bench.context import can_fetch, read_text, read_weight, strategies
from bench.facts import Fact
from bench.grid import Grid
from changeover import Agent, Team, delegate
from changeover.handoffs.strategies import FETCH, Strategy
from changeover.handoffs.tokens import count, weight
from changeover.messages import Assistant, Message, Reply, ToolResult
from changeover.relay.ports.world import Request
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import Fn, ToolDefinition

TOOLS: dict[str, list[Fn]] = {
    "orders": [work.find_order, work.check_stock, work.read_contract],
    "shipping": [work.trace_shipment, work.customs_status, work.book_carrier],
    "billing": [work.find_invoice, work.issue_credit],
}
RULES = {"orders": work.ORDERS, "shipping": work.SHIPPING, "billing": work.BILLING}
ABOUT = {
    "orders": "finds orders, stock and what contracts say",
    "shipping": "traces shipments and books carriers",
    "billing": "corrects invoices",
}
STEPS: dict[str, list[Reply]] = {
    "orders": [
        calls(("find_order", {"customer_number": "7719"}), text="I look the order up."),
        calls(("check_stock", {"article": "MS-55/2C", "quantity": 18})),
        calls(("read_contract", {"contract": "FW-2023-118", "topics": ["late delivery", "express"]})),
    ],
    "shipping": [
        calls(("trace_shipment", {"delivery_note": "DN-90312"}), text="First I trace what has left."),
        calls(("customs_status", {"reference": "NF-7730-CH"})),
        calls(
            (
                "book_carrier",
                {"origin": "Rotterdam", "quantity": 18, "arrive_by": "2026-05-07", "reason": "our fault, line stops"},
            )
        ),
    ],
    "billing": [
        calls(("find_invoice", {"order": "SO-448120"})),
        calls(
            (
                "issue_credit",
                {
                    "invoice": "INV-260415-07",
                    "line": 10,
                    "quantity": 18,
                    "rebate_percent": 4.0,
                    "reason": "not delivered",
                },
            )
        ),
    ],
}
"""The work of each agent, in every shape."""


HEAD = ("shape", "strategy", "tokens", "of one agent", "requests", "missing")


class Bill(NamedTuple):
    """The cost of a shape: tokens, model requests, and the facts that an agent lacked."""

    tokens: int
    requests: int
    missing: list[Fact]


class Meter:
    """A model that counts what it reads and writes."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.tokens = self.requests = 0

    async def reply(self, request: Request) -> Reply:
        reply = await self._model.reply(request)
        self.tokens += tokens_of(request) + weight(Assistant("", reply.text, calls=reply.calls))
        self.requests += 1
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


def tokens_of(request: Request) -> int:
    """The content of a request to a provider: instructions, tools and messages."""
    tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools]
    defined = count(json.dumps(tools)) if tools else 0
    return count(request.instructions) + defined + sum(map(read_weight, request.messages))


class Part(NamedTuple):
    """The replies of one agent: fetch unknown facts, make its calls, then give `last`."""

    name: str
    last: Reply
    missing: list[Fact]

    def plays(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        own = [message for message in messages if isinstance(message, Assistant) and message.agent == self.name]
        asked = bool(own) and own[0].calls[0].name == FETCH
        unknown = [fact for fact in work.NEEDED[self.name] if not fact.stands_in(read_text(messages))]
        if unknown and not own and can_fetch(tools):
            return calls(*((FETCH, {"query": fact.question}) for fact in unknown))
        if len(own) == asked:
            self.missing.extend(unknown)
        return [*STEPS[self.name], self.last][len(own) - asked]


async def alone() -> Bill:
    """One agent with the rules and the tools of all."""
    steps = [step for steps in STEPS.values() for step in steps]
    meter = Meter(ScriptedModel({"desk": [*steps, says(work.ANSWER)]}))
    rules = "\n\n".join([work.MANNERS, *RULES.values()])
    desk = Agent("desk", instructions=rules, tools=[tool for tools in TOOLS.values() for tool in tools])
    return await _run([desk], meter, None, [])


async def swarm(strategy: Strategy) -> Bill:
    """Three agents that hand over to one another."""
    lasts = {
        "orders": hands_off("shipping", "18 seals of PO 7719 never arrived. Please get them to the customer in time."),
        "shipping": hands_off("billing", "The missing seals are on their way. Please correct the invoice and answer."),
        "billing": says(work.ANSWER),
    }
    ways = {"orders": ["shipping", "billing"], "shipping": ["orders", "billing"], "billing": ["orders", "shipping"]}
    missing: list[Fact] = []
    parts = {name: Part(name, last, missing).plays for name, last in lasts.items()}
    members = [_specialist(name, ways[name]) for name in STEPS]
    return await _run(members, Meter(_cast(parts)), strategy, missing)


async def supervisor(strategy: Strategy) -> Bill:
    """Three agents that work as delegates of a fourth."""
    lasts = {"orders": says(work.FOUND), "shipping": says(work.SENT), "billing": says(work.CORRECTED)}
    missing: list[Fact] = []
    parts = {name: Part(name, last, missing).plays for name, last in lasts.items()}
    boss = Agent("boss", instructions=f"{work.MANNERS}\n\n{work.BOSS}", handoffs=[delegate(name) for name in STEPS])
    members = [boss, *(_specialist(name, []) for name in STEPS)]
    return await _run(members, Meter(_cast({**parts, "boss": _directs})), strategy, missing)


def _directs(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    lines = [
        delegates("orders", "Find out what is missing of PO 7719, where we have it, and what the contract says."),
        delegates("shipping", "Find the parcel that is missing, and get the seals to the customer in time."),
        delegates("billing", "Correct the invoice for what was not delivered."),
        says(work.ANSWER),
    ]
    return lines[sum(isinstance(message, ToolResult) for message in messages)]


def _specialist(name: str, ways: list[str]) -> Agent:
    return Agent(
        name,
        description=ABOUT[name],
        instructions=f"{work.MANNERS}\n\n{RULES[name]}",
        tools=TOOLS[name],
        handoffs=ways,
    )


def _cast(parts: Mapping[str, Callable[[Sequence[Message], Sequence[ToolDefinition]], Reply]]) -> ScriptedModel:
    def plays(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return parts[agent](messages, tools)

    return ScriptedModel(plays)


async def _run(members: list[Agent], meter: Meter, strategy: Strategy | None, missing: list[Fact]) -> Bill:
    helper = Meter(ScriptedModel({"helper": list(map(says, work.SUMMARIES))}))
    # A fixed clock: models are told durations, which would differ in every run.
    clock = ManualClock()
    async with Team(members, model=meter, helper_model=helper, strategy=strategy, clock=clock) as team:
        result = await team.run(work.ASKED, conversation="work")
    assert result.output == work.ANSWER
    return Bill(meter.tokens + helper.tokens, meter.requests + helper.requests, missing)


Bills = dict[tuple[str, str], Bill]
"""By shape and strategy."""
ALONE = ("one agent", "")


async def bills() -> Bills:
    """Measure every shape under every strategy; the first is the baseline."""
    found = {ALONE: await alone()}
    for shape in (swarm, supervisor):
        for name, strategy in strategies(work.NEEDS).items():
            found[shape.__name__, name] = await shape(strategy)
    return found


def whole_tasks(measured: Bills) -> Grid:
    """The table of the cost of each shape."""
    one, rows, before = measured[ALONE], [], ""
    for (shape, name), bill in measured.items():
        ratio = f"{bill.tokens / one.tokens:.2f} x"
        title, before = "" if shape == before else shape, shape
        rows.append((title, name, f"{bill.tokens:,}", ratio, str(bill.requests), str(len(bill.missing))))
    return Grid("The same work by one agent and by three", HEAD, rows)
