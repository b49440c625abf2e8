"""SpanWriter: writes spans with the program's tracer, and counts them with its meter."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import getrandbits
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import msgspec

from changeover.facts import Usage
from changeover.ids import split_trace, trace_context
from changeover.observe import semconv as names
from changeover.observe.instruments import SCOPE, Instruments, Labels
from changeover.observe.trace import TraceSpan

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

CACHED = 1_024
"""How many span contexts are cached: the same spans are parents and ends of links again and again."""
NANOSECONDS = 1_000_000_000


class SpanWriter:
    """Writes the spans of recorded events, and begins those of calls.

    `redact` is called with each text that a span holds; None if spans hold no content.
    """

    def __init__(self, tracers: Any, meters: Any, redact: Callable[[str], str] | None) -> None:
        from opentelemetry import context, trace

        self.redact, self.api, self.context = redact, trace, context
        self._tracer = (tracers or trace.get_tracer_provider()).get_tracer(SCOPE)
        self._ids = SpanIds.of(self._tracer)
        self.instruments = Instruments(meters)
        self._flags = trace.TraceFlags(), trace.TraceFlags(trace.TraceFlags.SAMPLED)
        self._span_context = lru_cache(CACHED)(self._new_span_context)
        self._context_below = lru_cache(CACHED)(self._new_context_below)

    def begin(self) -> str:
        """The trace context of the current span, else of a new trace."""
        current = self.api.get_current_span().get_span_context()
        if current.is_valid:
            return _text(current)
        if self._ids is None:
            return trace_context(f"{getrandbits(128):032x}", sampled=False)
        trace = self._ids.generate_trace_id()
        sampler: Any = getattr(self._tracer, "sampler", None)
        sampled = sampler is None or sampler.should_sample(None, trace, names.INVOKE_WORKFLOW).decision.is_sampled()
        return trace_context(f"{trace:032x}", sampled=sampled)

    def write(self, span: TraceSpan) -> None:
        """Count a span whose end is recorded, and write it if its trace is sampled."""
        trace, _, sampled = split_trace(span.trace)
        attributes = span.attributes
        if sampled and self._ids is not None:
            if span.message and self.redact is not None:
                attributes[names.MESSAGE] = self.redact(span.message)
            context = self._context_below(trace, span.parent, sampled)
            links = [self.api.Link(self._span_context(trace, span.link, sampled))] if span.link else None
            self._ids.next = self._span_context(trace, span.id, sampled)
            made = self._tracer.start_span(
                span.name, context, attributes=attributes, links=links, start_time=int(span.start * NANOSECONDS)
            )
            self._ids.next = None
            if span.error:
                self.mark_failed(made, span.error)
            made.end(int(span.end * NANOSECONDS))
        self.instruments.count(attributes, span.end - span.start)

    def call(self, name: str, at: str, attributes: dict[str, Any], labels: Labels) -> CallSpan:
        """Begin the span of a call below the trace context `at`; `labels` are those of its measurements."""
        trace, above, sampled = split_trace(at)
        context = self._context_below(trace, above, sampled)
        if not sampled or self._ids is None:
            return CallSpan(self.api.get_current_span(context), self, labels)
        kind = self.api.SpanKind.CLIENT if labels[names.OPERATION] == names.CHAT else self.api.SpanKind.INTERNAL
        return CallSpan(self._tracer.start_span(name, context, kind, attributes), self, labels)

    def mark_failed(self, span: Span, kind: str) -> None:
        """Set the error of a span: only its kind, since the words of an error may be private."""
        span.set_attribute(names.ERROR_TYPE, kind)
        span.set_status(self.api.StatusCode.ERROR, kind)

    def _new_span_context(self, trace: str, span: str, sampled: bool) -> SpanContext:
        return self.api.SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=self._flags[sampled])

    def _new_context_below(self, trace: str, parent: str, sampled: bool) -> Context:
        if not parent:
            return self.context.Context()
        above = self.api.NonRecordingSpan(self._span_context(trace, parent, sampled))
        return self.api.set_span_in_context(above, self.context.Context())


class SpanIds:
    """Gives a tracer the ids of spans that are known before, else those of the program's generator."""

    def __init__(self, others: Any) -> None:
        self._others = others
        self.next: SpanContext | None = None
        """The context of the next span. Only the event loop of the team writes spans whose ids are known before."""

    @classmethod
    def of(cls, tracer: Any) -> SpanIds | None:
        """Replace the generator of a tracer; None if the tracer has none and so makes no spans."""
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


class CallSpan:
    """The span of a call under way. As a context manager it is the current span, and ends with the block."""

    __slots__ = ("_attached", "_begun", "_labels", "_span", "_usage", "_writer")

    def __init__(self, span: Span, writer: SpanWriter, labels: Labels) -> None:
        self._span, self._writer, self._labels = span, writer, labels
        self._begun: float | None = perf_counter()
        """None once the span has ended."""
        self._usage: Usage | None = None
        self._attached: Any = None
        """Restores the span that was current before."""

    @property
    def trace(self) -> str:
        """The trace context of this span."""
        return _text(self._span.get_span_context())

    def add_usage(self, usage: Usage) -> None:
        """Add the tokens and the cost of the call, as far as the provider reports them."""
        self._usage, figures = usage, dict[str, float]()
        if usage.total_tokens:
            figures = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
        if usage.cost is not None:
            figures[names.COST] = usage.cost
        if figures:
            self._span.set_attributes(figures)

    def add_content(self, contents: Callable[[], dict[str, Any]]) -> None:
        """Add attributes with texts, or with values as JSON; `contents` is only called if spans hold content."""
        if (redact := self._writer.redact) is not None:
            for name, value in contents().items():
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                self._span.set_attribute(name, redact(text))

    def fail(self, kind: str) -> None:
        """Mark the call as failed."""
        self._labels = {**self._labels, names.ERROR_TYPE: kind}
        self._writer.mark_failed(self._span, kind)

    def end(self) -> None:
        """Count the call and end the span, once."""
        if self._begun is not None:
            seconds, self._begun = perf_counter() - self._begun, None
            self._writer.instruments.count_call(self._labels, seconds, self._usage)
            self._span.end()

    def __enter__(self) -> Self:
        self._attached = self._writer.context.attach(self._writer.api.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self._writer.context.detach(self._attached)
        if kind is not None:
            self.fail(kind.__name__)
        self.end()


def _text(context: SpanContext) -> str:
    return trace_context(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled)
