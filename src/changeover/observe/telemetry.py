"""Telemetry: OpenTelemetry spans of a team. The library is imported when a team with telemetry begins its first run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import Token
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakMethod

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from changeover.ids import split_trace, trace_context
from changeover.messages import Reply
from changeover.observe import semconv as names
from changeover.observe.instruments import SCOPE, Instruments, providers_of_environment
from changeover.observe.logs import redacted
from changeover.observe.readings import Snapshot, Watch, snapshot
from changeover.observe.trace import Trace, TraceSpan
from changeover.relay.history import recorded as history
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Model, Request, Toolkit, ToolOutcome, World
from changeover.relay.stream import Delta, Recorded
from changeover.tools.run_context import RunContext, current_trace

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

KEPT = 4_096
"""Number of conversations in memory from which on those without a run are forgotten."""
PLACES = 1_024
"""Size of the caches of places in traces."""


class Telemetry(Struct, frozen=True, kw_only=True):
    """What a team reports to OpenTelemetry (`Team(telemetry=…)`); needs the extra `otel`.

    `tracer_provider` and `meter_provider` are the program's own (default: the global ones). With `content=True` spans
    hold messages, arguments and results; `redact` is called with each such text (default: tokens are masked).
    """

    # Any: the types are those of a library that need not be installed.
    tracer_provider: Any = None
    meter_provider: Any = None
    content: bool = False
    redact: Callable[[str], str] = redacted


def telemetry_faults(given: object) -> list[str]:
    """The faults of the declaration `telemetry=…`, one text each."""
    if given is None or isinstance(given, bool | Telemetry):
        return []
    return [f"telemetry={given!r} is not True, False or Telemetry(…)"]


def telemetry_of_environment() -> Telemetry | None:
    """Telemetry as the standard environment variables of OpenTelemetry ask for it; None if they do not."""
    found = providers_of_environment()
    return Telemetry(tracer_provider=found[0], meter_provider=found[1]) if found else None


def tracing_of(
    declared: bool | Telemetry | None, log: Callable[[], Log], current: Callable[[], Log | None]
) -> Tracing | None:
    """The Tracing of a team; None without telemetry. `log` opens the log, `current` gives it if it is open."""
    if not declared:
        return None
    return Tracing(declared if isinstance(declared, Telemetry) else Telemetry(), log, current)


class Tracing:
    """Makes the spans of a team: of what is recorded as its observer, of calls of models and tools while they run."""

    reads_handoffs = False

    def __init__(self, settings: Telemetry, log: Callable[[], Log], current: Callable[[], Log | None]) -> None:
        self._settings, self._log, self._current = settings, log, current
        self._pen: _Pen | None = None
        self._world: World | None = None
        self._traces: dict[str, Trace] = {}

    @property
    def pen(self) -> _Pen:
        """Writes the spans; made when it is first needed, so that the program may set its provider after the team."""
        if self._pen is None:
            self._pen = _Pen(self._settings)
            team = self._world.roster.team if self._world else ""
            self._pen.instruments.watch(Watch(team, WeakMethod(self._look)))
        return self._pen

    def _look(self) -> Coroutine[Any, Any, Snapshot] | None:
        world, log = self._world, self._current()
        return snapshot(log, world, world.clock.now()) if world and log else None

    def watched(self, world: World) -> World:
        """The world with models and toolkits whose calls have spans."""
        self._world = world
        return replace(
            world,
            trace=self.begin,
            models={name: TracedModel(model, self, name) for name, model in world.models.items()},
            toolkits={name: TracedToolkit(toolkit, self) for name, toolkit in world.toolkits.items()},
        )

    def begin(self) -> str:
        """The caller's place in a trace, or the beginning of a new one."""
        return self.pen.begin()

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        """True if no log has to be read: all before these events is known here."""
        first = recorded[0]
        trace = self._traces.get(first.conversation)
        return first.position == 0 or (trace is not None and trace.position == first.position)

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        """End the spans that these events end."""
        for record in recorded:
            trace = self._traces.get(record.conversation)
            if trace is None or trace.position != record.position:
                trace = await self._read_trace(record)
            if record.position >= trace.position:
                for span in trace.apply(record):
                    self.pen.write(span)

    async def _read_trace(self, record: Recorded) -> Trace:
        if record.conversation not in self._traces and len(self._traces) >= KEPT:
            self._traces = {id: trace for id, trace in self._traces.items() if not trace.idle}
        trace = self._traces[record.conversation] = Trace(record.conversation)
        # Another process recorded what was before: the log tells when it began.
        for each in history(await self._log().read(record.conversation)) if record.position else ():
            if each.position < record.position:
                trace.apply(each)
        return trace

    def call(self, name: str, context: RunContext | None, attributes: dict[str, Any]) -> Call:
        """The span of a call that begins, below that of its agent; it does nothing if the run is not traced."""
        if context is None or not context.trace:
            return UNTRACED
        trace, above, sampled = split_trace(context.trace)
        return self.pen.call(name, trace, above, attributes) if sampled else UNTRACED


class Call:
    """The span of a call under way; as a context manager it is the current span, and ends with the block."""

    def __init__(self, span: Span, pen: _Pen, attributes: dict[str, Any]) -> None:
        self._span, self._pen, self._attributes = span, pen, attributes
        self._begun = perf_counter()
        self._before: tuple[Token[str], object] | None = None
        """The tokens that restore what was current before this call."""

    def tell(self, attributes: dict[str, Any]) -> None:
        """Add attributes, by the names of `semconv`."""
        self._attributes |= attributes
        self._span.set_attributes(attributes)

    def show(self, contents: Callable[[], dict[str, Any]]) -> None:
        """Add contents, which are only made if the team wants them in its spans."""
        settings = self._pen.settings
        if settings.content:
            self.tell({name: written(value, settings.redact) for name, value in contents().items()})

    def fail(self, kind: str) -> None:
        """Mark the call as failed."""
        self.tell({names.ERROR_TYPE: kind})
        self._span.set_status(self._pen.api.StatusCode.ERROR, kind)

    def end(self) -> None:
        """End the span, once."""
        if self._span.is_recording():
            self._pen.instruments.count_call(self._attributes, perf_counter() - self._begun)
            self._span.end()

    def __enter__(self) -> Self:
        own = self._span.get_span_context()
        here = trace_context(f"{own.trace_id:032x}", f"{own.span_id:016x}", own.trace_flags.sampled)
        attached = self._pen.context.attach(self._pen.api.set_span_in_context(self._span))
        self._before = current_trace.set(here), attached
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if self._before is not None:
            token, attached = self._before
            self._pen.context.detach(attached)
            current_trace.reset(token)
        if kind is not None:  # the words of an error may be private: its kind says enough
            self.fail(kind.__name__)
        self.end()


class _Untraced(Call):
    """A call of a run that is not traced."""

    def __init__(self) -> None:
        pass

    def tell(self, attributes: dict[str, Any]) -> None:
        pass

    def show(self, contents: Callable[[], dict[str, Any]]) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass

    def end(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        pass


UNTRACED = _Untraced()


def written(value: Any, redact: Callable[[str], str]) -> str:
    """A value as a text for an attribute."""
    return redact(value if isinstance(value, str) else msgspec.json.encode(value).decode())


class _Pen:
    """Writes spans with the program's tracer. Spans of recorded events have ids of their own, see `ids.span_id`."""

    def __init__(self, settings: Telemetry) -> None:
        from opentelemetry import context, trace

        self.settings, self.api, self.context = settings, trace, context
        provider = settings.tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer(SCOPE)
        self._ids = _Ids.of(self._tracer)
        self.instruments = Instruments(settings.meter_provider)
        # The same spans are parents and ends of links again and again.
        self._place = lru_cache(PLACES)(self._new_place)
        self._below = lru_cache(PLACES)(self._new_below)

    def begin(self) -> str:
        """The place of the current span, else the beginning of a trace; empty if nothing records spans."""
        if self._ids is None:
            return ""
        current = self.api.get_current_span().get_span_context()
        if current.is_valid:
            return trace_context(f"{current.trace_id:032x}", f"{current.span_id:016x}", current.trace_flags.sampled)
        trace = self._ids.generate_trace_id()
        sampler: Any = getattr(self._tracer, "sampler", None)
        sampled = sampler is None or sampler.should_sample(None, trace, names.INVOKE_WORKFLOW).decision.is_sampled()
        return trace_context(f"{trace:032x}", sampled=sampled)

    def write(self, span: TraceSpan) -> None:
        """Write a span whose end is recorded."""
        trace, _, sampled = split_trace(span.trace)
        if self._ids is None or not sampled:
            return
        attributes = span.attributes
        if not self.settings.content:
            attributes.pop(names.MESSAGE, None)
        elif names.MESSAGE in attributes:
            attributes[names.MESSAGE] = self.settings.redact(attributes[names.MESSAGE])
        self._ids.next = self._place(trace, span.id)
        links = [self.api.Link(self._place(trace, id)) for id in span.links]
        made = self._tracer.start_span(
            span.name, self._below(trace, span.parent), attributes=attributes, links=links, start_time=_ns(span.start)
        )
        self._ids.next = None
        if span.error:
            made.set_attribute(names.ERROR_TYPE, span.error)
            made.set_status(self.api.StatusCode.ERROR, span.error)
        made.end(_ns(span.end))
        self.instruments.count(attributes, span.end - span.start, span.error)

    def call(self, name: str, trace: str, above: str, attributes: dict[str, Any]) -> Call:
        """The span of a call that begins now."""
        kind = self.api.SpanKind.CLIENT if attributes[names.OPERATION] == names.CHAT else self.api.SpanKind.INTERNAL
        span = self._tracer.start_span(name, self._below(trace, above), kind, attributes)
        return Call(span, self, attributes)

    def _new_place(self, trace: str, span: str) -> SpanContext:
        flags = self.api.TraceFlags(self.api.TraceFlags.SAMPLED)
        return self.api.SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=flags)

    def _new_below(self, trace: str, parent: str) -> Context:
        if not parent:
            return self.context.Context()
        return self.api.set_span_in_context(
            self.api.NonRecordingSpan(self._place(trace, parent)), self.context.Context()
        )


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


class _Ids:
    """Gives the tracer of a team the ids of spans that are known before, else those of the program's generator."""

    def __init__(self, others: Any) -> None:
        self._others = others
        self.next: SpanContext | None = None
        """The place of the next span. Only the event loop of the team writes spans of this kind."""

    @classmethod
    def of(cls, tracer: Any) -> _Ids | None:
        """Take the place of a tracer's generator; None if the tracer has none and so makes no spans."""
        others = getattr(tracer, "id_generator", None)
        if others is None:
            return None
        ids = others if isinstance(others, cls) else cls(others)
        tracer.id_generator = ids
        return ids

    def generate_trace_id(self) -> int:
        return self.next.trace_id if self.next else int(self._others.generate_trace_id())

    def generate_span_id(self) -> int:
        return self.next.span_id if self.next else int(self._others.generate_span_id())

    def is_trace_id_random(self) -> bool:
        return False


class TracedModel:
    """A model whose calls have spans."""

    def __init__(self, model: Model, tracing: Tracing, name: str) -> None:
        self._model, self._tracing = model, tracing
        self._name = str(getattr(model, "name", "") or name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def reply(self, request: Request) -> Reply:
        with self._call(request) as call:
            reply = await self._model.reply(request)
            self._note(call, reply)
            return reply

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        # Not the current span: between two pieces the reader runs in the same context.
        call = self._call(request)
        try:
            async for piece in self._model.stream(request):
                if isinstance(piece, Reply):
                    self._note(call, piece)
                    call.end()  # the reader may never ask for what follows
                yield piece
        except Exception as error:
            call.fail(type(error).__name__)
            raise
        finally:
            call.end()

    def _call(self, request: Request) -> Call:
        attributes = {
            names.OPERATION: names.CHAT,
            names.REQUEST_MODEL: self._name,
            names.CONVERSATION: request.conversation,
            names.AGENT_ID: request.agent,
            names.ATTEMPT: request.attempt,
        }
        call = self._tracing.call(f"{names.CHAT} {self._name}", request.context, attributes)
        call.show(lambda: {names.INSTRUCTIONS: request.instructions, names.INPUT_MESSAGES: list(request.messages)})
        return call

    def _note(self, call: Call, reply: Reply) -> None:
        usage = reply.usage
        figures: dict[str, float] = {}
        if usage.total_tokens:  # else the provider reports none
            figures = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
        if usage.cost is not None:
            figures[names.COST] = usage.cost
        if figures:
            call.tell(figures)
        call.show(lambda: {names.OUTPUT_MESSAGES: {"text": reply.text, "calls": reply.calls}})


class TracedToolkit:
    """A toolkit whose calls have spans."""

    def __init__(self, toolkit: Toolkit, tracing: Tracing) -> None:
        self._toolkit, self._tracing = toolkit, tracing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._toolkit, name)

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: name,
            names.TOOL_CALL: context.command,
            names.CONVERSATION: context.conversation,
            names.AGENT_ID: context.agent,
        }
        with self._tracing.call(f"{names.EXECUTE_TOOL} {name}", context, attributes) as call:
            call.show(lambda: {names.TOOL_ARGUMENTS: args})
            outcome = await self._toolkit.call(name, args, context)
            call.show(lambda: {names.TOOL_RESULT: outcome.text})
            if not outcome.ok:
                call.fail("tool_error")
            return outcome
