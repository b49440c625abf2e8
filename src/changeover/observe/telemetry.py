"""Telemetry: OpenTelemetry spans of a team. The library is imported when a team with telemetry begins its first run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any
from weakref import WeakMethod

from msgspec import Struct
from msgspec.structs import replace

from changeover.messages import Reply
from changeover.observe import semconv as names
from changeover.observe.instruments import providers_of_environment
from changeover.observe.logs import redacted
from changeover.observe.readings import Snapshot, Watch, snapshot
from changeover.observe.span_writer import CallSpan, SpanWriter
from changeover.observe.trace import Trace, TraceSpan
from changeover.relay.history import recorded as history
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Model, Request, Toolkit, ToolOutcome, World
from changeover.relay.stream import Delta, Recorded
from changeover.tools.run_context import RunContext, current_trace

KEPT = 4_096
"""How many conversations are remembered, before those without a run are forgotten."""


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
        self._writer: SpanWriter | None = None
        self._world: World | None = None
        self._traces: dict[str, Trace] = {}

    @property
    def writer(self) -> SpanWriter:
        """Made when it is first needed, so that the program may set its provider after the team."""
        if self._writer is None:
            settings = self._settings
            redact = settings.redact if settings.content else None
            self._writer = SpanWriter(settings.tracer_provider, settings.meter_provider, redact)
            team = self._world.roster.team if self._world else ""
            self._writer.instruments.watch(Watch(team, WeakMethod(self._look)))
        return self._writer

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
        """The trace context of the caller, or of a new trace."""
        return self.writer.begin()

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        """True if no log has to be read: all events before these are known here."""
        return self._trace_before(recorded) is not None

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        """Write the spans that these events of a conversation end."""
        trace = self._trace_before(recorded)
        finished = trace.apply(recorded) if trace is not None else await self._catch_up(recorded)
        for span in finished:
            self.writer.write(span)

    def _trace_before(self, recorded: Sequence[Recorded]) -> Trace | None:
        """The trace to which these events are applied; None if other events come before them or between them."""
        first, last = recorded[0], recorded[-1]
        if last.position - first.position >= len(recorded):
            return None
        trace = self._traces.get(first.conversation)
        if trace is not None and trace.position == first.position:
            return trace
        return self._new_trace(first.conversation) if first.position == 0 else None

    async def _catch_up(self, recorded: Sequence[Recorded]) -> list[TraceSpan]:
        """The spans that these events end, found in the log: other processes recorded the events around them, and write
        the spans that those end."""
        own, trace = {record.position for record in recorded}, self._new_trace(recorded[0].conversation)
        finished: list[TraceSpan] = []
        for each in history(await self._log().read(trace.conversation)):
            if each.position <= recorded[-1].position:
                ended = trace.apply([each])
                finished += ended if each.position in own else ()
        return finished

    def _new_trace(self, conversation: str) -> Trace:
        if conversation not in self._traces and len(self._traces) >= KEPT:
            self._traces = {id: trace for id, trace in self._traces.items() if not trace.idle}
        trace = self._traces[conversation] = Trace(conversation)
        return trace


class TracedModel:
    """A model whose calls have spans."""

    def __init__(self, model: Model, tracing: Tracing, name: str) -> None:
        self._model, self._tracing = model, tracing
        name = str(getattr(model, "name", "") or name)
        self._span_name = f"{names.CHAT} {name}"
        self._labels = {names.OPERATION: names.CHAT, names.REQUEST_MODEL: name}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def reply(self, request: Request) -> Reply:
        if (call := self._call(request)) is None:
            return await self._model.reply(request)
        with call:
            reply = await self._model.reply(request)
            _note(call, reply)
            return reply

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        # Not the current span: between two pieces the reader runs in the same context.
        call = self._call(request)
        try:
            async for piece in self._model.stream(request):
                if call is not None and isinstance(piece, Reply):
                    _note(call, piece)
                    call.end()  # the reader may never ask for what follows
                yield piece
        except Exception as error:
            if call is not None:
                call.fail(type(error).__name__)
            raise
        finally:
            if call is not None:
                call.end()

    def _call(self, request: Request) -> CallSpan | None:
        """Begin the span of a call; None if the run is not traced."""
        context = request.context
        if context is None or not context.trace:
            return None
        attributes = {
            **self._labels,
            names.CONVERSATION: request.conversation,
            names.AGENT_ID: request.agent,
            names.ATTEMPT: request.attempt,
        }
        call = self._tracing.writer.call(self._span_name, context.trace, attributes, self._labels)
        call.add_content(
            lambda: {names.INSTRUCTIONS: request.instructions, names.INPUT_MESSAGES: list(request.messages)}
        )
        return call


def _note(call: CallSpan, reply: Reply) -> None:
    call.add_usage(reply.usage)
    call.add_content(lambda: {names.OUTPUT_MESSAGES: {"text": reply.text, "calls": reply.calls}})


class TracedToolkit:
    """A toolkit whose calls have spans."""

    def __init__(self, toolkit: Toolkit, tracing: Tracing) -> None:
        self._toolkit, self._tracing = toolkit, tracing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._toolkit, name)

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        if not context.trace:
            return await self._toolkit.call(name, args, context)
        labels = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: name}
        attributes = {
            **labels,
            names.TOOL_CALL: context.command,
            names.CONVERSATION: context.conversation,
            names.AGENT_ID: context.agent,
        }
        with self._tracing.writer.call(f"{names.EXECUTE_TOOL} {name}", context.trace, attributes, labels) as call:
            call.add_content(lambda: {names.TOOL_ARGUMENTS: args})
            before = current_trace.set(call.trace)
            try:
                outcome = await self._toolkit.call(name, args, context)
            finally:
                current_trace.reset(before)
            call.add_content(lambda: {names.TOOL_RESULT: outcome.text})
            if not outcome.ok:
                call.fail("tool_error")
            return outcome
