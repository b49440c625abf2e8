"""The spans and measurements of a run made by hand, as a program without our telemetry would make them."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter

from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, Tracer, set_span_in_context, use_span

from bench.core import run
from bench.measure import Work
from bench.ring import INSTRUCTIONS, LINE
from bench.script import LEFT, RingModel, line
from changeover import Agent, Limits, Team, Telemetry
from changeover.messages import Call, Reply
from changeover.observe import semconv as names
from changeover.relay.ports.world import Request

HOPS = 5


class ModelByHand(RingModel):
    """Makes each span where a run makes it; only the span of a call is the current one while it lasts."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        super().__init__()
        self._tracer = tracer
        self._runs = meter.create_counter(names.RUNS_METRIC)
        self._calls = meter.create_histogram(names.DURATION_METRIC)
        self._handoffs = meter.create_counter(names.HANDOFFS_METRIC)
        self._durations = meter.create_histogram(names.LATENCY_METRIC)
        self._run: Span = INVALID_SPAN
        self._handoff: Span | None = None

    async def traced(self, run: Awaitable[object]) -> None:
        """Await a run, and make its span."""
        own = {names.CONVERSATION: "c", names.RUN: "c:0"}
        self._run = self._tracer.start_span(names.INVOKE_WORKFLOW, Context(), attributes=own)
        self._handoff = None
        await run
        self._run.set_attribute(names.STATUS, "completed")
        self._run.end()
        self._runs.add(1, {names.STATUS: "completed"})

    async def reply(self, request: Request) -> Reply:
        agent = request.agent
        own = {
            names.CONVERSATION: request.conversation,
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT_ID: agent,
            names.AGENT_NAME: agent,
        }
        above = set_span_in_context(self._run, Context())
        links = [Link(self._handoff.get_span_context())] if self._handoff else None
        leg = self._tracer.start_span(f"{names.INVOKE_AGENT} {agent}", above, attributes=own, links=links)
        below = set_span_in_context(leg, Context())
        reply = await self._call(request, below)
        for call in reply.calls:
            self._hand_over(request, call, below)
        leg.end()
        return reply

    async def _call(self, request: Request, above: Context) -> Reply:
        agent = request.agent
        own: dict[str, str | int] = {
            names.OPERATION: names.CHAT,
            names.REQUEST_MODEL: agent,
            names.CONVERSATION: request.conversation,
            names.AGENT_ID: agent,
            names.ATTEMPT: request.attempt,
        }
        begun = perf_counter()
        span = self._tracer.start_span(f"{names.CHAT} {agent}", above, SpanKind.CLIENT, own)
        with use_span(span, end_on_exit=True):
            reply = await super().reply(request)
        self._calls.record(perf_counter() - begun, {names.OPERATION: names.CHAT, names.REQUEST_MODEL: agent})
        return reply

    def _hand_over(self, request: Request, call: Call, above: Context) -> None:
        begun, receiver = perf_counter(), call.args["to"]
        labels = {
            names.SENDER: request.agent,
            names.RECEIVER: receiver,
            names.MODE: "transfer",
            names.OUTCOME: "accepted",
        }
        own = {
            names.CONVERSATION: request.conversation,
            names.OPERATION: names.HANDOFF,
            names.HANDOFF_ID: call.id,
            names.ATTEMPT: 1,
            **labels,
        }
        links = [Link(self._run.get_span_context())]
        self._handoff = self._tracer.start_span(f"{names.HANDOFF} {receiver}", above, attributes=own, links=links)
        self._handoff.end()
        self._handoffs.add(1, labels)
        self._durations.record(perf_counter() - begun, labels)


def contenders(provider: TracerProvider) -> dict[str, Work]:
    """A run without and with telemetry, a run with spans by hand, and the same spans by hand in a bare loop."""
    meters = MeterProvider()
    model = ModelByHand(provider.get_tracer("bench"), meters.get_meter("bench"))
    off, by_hand = line(), _team(model)
    on = off.on(None, telemetry=Telemetry(tracer_provider=provider, meter_provider=meters))

    async def loop() -> None:
        LEFT.set([HOPS])
        for agent in LINE[: HOPS + 1]:
            await model.reply(_request(agent))

    return {
        "off": lambda: run(off, HOPS),
        "on": lambda: run(on, HOPS),
        "hand": lambda: model.traced(run(by_hand, HOPS)),
        "loop": lambda: model.traced(loop()),
    }


def _team(model: RingModel) -> Team:
    """As `line()`, with another model."""
    limits = Limits(max_handoffs=1_000, max_turns=1_000, max_agents=len(LINE))
    return Team([Agent(name, instructions=INSTRUCTIONS) for name in LINE], model=model, limits=limits)


def _request(agent: str) -> Request:
    return Request(
        agent=agent,
        instructions="",
        messages=(),
        tools=(),
        settings={},
        conversation="c",
        command="1",
        attempt=1,
        turn=0,
    )


async def spans_of_a_run() -> int:
    """How many spans a run makes; raises ValueError if those by hand have other names, attributes or links."""
    ours, *others = [await _shapes(name) for name in ("on", "hand", "loop")]
    if wrong := [other for other in others if other != ours]:
        raise ValueError(f"a run makes the spans {ours}; by hand they are {wrong[0]}")
    return len(ours)


async def _shapes(name: str) -> list[tuple[str, str, list[str], int]]:
    """The name, the kind, the attributes and the number of links of each span that a contender makes."""
    provider, seen = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(seen))
    await contenders(provider)[name]()
    return sorted(
        (span.name, span.kind.name, sorted(span.attributes or {}), len(span.links))
        for span in seen.get_finished_spans()
    )
