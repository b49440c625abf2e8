"""OpenTelemetry spans of every shape of work: one connected tree, right parents and durations, no orphans."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from changeover import Agent, Approve, Member, Team, Telemetry, delegate, handoff, tool
from changeover.errors import ChangeoverError, MisconfiguredError
from changeover.models import Reply, Request
from changeover.observe.telemetry import telemetry_of_environment, tracing_of
from changeover.protocol import HandoffPackage, Metadata, Rejected, Task
from changeover.relay.events import RunCompleted
from changeover.relay.stream import Recorded
from changeover.server import Settings, create_app
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import Store
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools import HttpTool
from tests.toolkits.http_server import serving


class Seen:
    """The spans that a team made."""

    def __init__(self, *exporters: SpanExporter) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        for each in exporters:
            self.provider.add_span_processor(SimpleSpanProcessor(each))
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = Telemetry(tracer_provider=self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def tree(self) -> list[str]:
        """The names of all spans, indented below their parents, in the order of their start."""
        below: dict[int, list[ReadableSpan]] = {}
        for span in self.spans:
            below.setdefault(span.parent.span_id if span.parent else 0, []).append(span)

        def lines(id: int, depth: int) -> Iterator[str]:
            for span in sorted(below.pop(id, []), key=lambda span: (span.start_time or 0, span.name)):
                yield f"{'  ' * depth}{span.name}"
                yield from lines(span.context.span_id, depth + 1)

        found = list(lines(0, 0))
        assert below == {}, "these spans have a parent that is not there"
        return found

    def one(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def seen() -> Seen:
    return Seen()


def told(span: ReadableSpan) -> Mapping[str, object]:
    return dict(span.attributes or {})


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


@tool
def look_up() -> str:
    """Look something up."""
    return "paid twice"


async def test_a_transfer_is_a_span_of_its_own_linked_with_the_leg_of_the_receiver(seen: Seen):
    script = {"triage": [hands_off("billing", "secret words")], "billing": [calls(("look_up", {})), says("Sent back.")]}
    team = Team(
        [Agent("triage"), Agent("billing", tools=[look_up])], model=ScriptedModel(script), telemetry=seen.telemetry
    )
    result = await team.run("Twice!", conversation="c")
    assert seen.tree() == [
        "invoke_workflow",
        "  invoke_agent triage",
        "    chat triage",
        "    handoff billing",
        "  invoke_agent billing",
        "    chat billing",
        "    execute_tool look_up",
        "    chat billing",
    ]
    handed, leg, run = seen.one("handoff billing"), seen.one("invoke_agent billing"), seen.one("invoke_workflow")
    assert (linked(handed), linked(leg)) == ([leg.context.span_id], [handed.context.span_id])
    assert told(handed)["changeover.handoff.id"] == "c:3.0"
    assert (told(run)["changeover.run.id"], told(run)["changeover.run.status"]) == (result.run_id, "completed")
    assert len({span.context.trace_id for span in seen.spans}) == 1


async def test_no_span_holds_content_unless_it_is_asked_for_and_then_it_is_redacted(seen: Seen):
    script = {"a": [hands_off("b", "private words")], "b": [calls(("echo", {"text": "Bearer abc.def"})), says("Done.")]}

    @tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    members: list[Member] = [Agent("a", instructions="private rules"), Agent("b", tools=[echo])]
    await Team(members, model=ScriptedModel(script), telemetry=seen.telemetry).run("private question")
    assert not [span for span in seen.spans if "private" in span.to_json() or "abc.def" in span.to_json()]
    seen.exporter.clear()
    asked = Telemetry(tracer_provider=seen.provider, content=True)
    await Team(members, model=ScriptedModel(script), telemetry=asked).run("private question")
    assert "private rules" in str(told(seen.one("chat a"))["gen_ai.system_instructions"])
    assert told(seen.one("handoff b"))["changeover.handoff.message"] == "private words"
    assert told(seen.one("execute_tool echo"))["gen_ai.tool.call.arguments"] == '{"text":"Bearer ***'
    assert not [span for span in seen.spans if "abc.def" in span.to_json()]


async def test_a_delegate_is_a_run_below_its_handoff(seen: Seen):
    script = {"desk": [delegates("law", "Legal?"), says("Yes.")], "law": [says("It is.")]}
    members: list[Member] = [Agent("desk", handoffs=[delegate("law")]), Agent("law", handoffs=())]
    await Team(members, model=ScriptedModel(script), telemetry=seen.telemetry).run("May I?")
    tree = seen.tree()
    assert tree[:2] == ["invoke_workflow", "  invoke_agent desk"]
    assert [line for line in tree if "law" in line or "      " in line] == [
        "    handoff law",
        "      invoke_workflow",
        "        invoke_agent law",
        "          chat law",
    ]
    handed = seen.one("handoff law")
    assert linked(handed) == [seen.one("invoke_agent law").context.span_id]
    assert told(handed)["changeover.handoff.outcome"] == "done"


async def test_each_branch_of_a_fan_out_has_its_own_span(seen: Seen):
    script = {"desk": [calls(delegates("a", "One"), delegates("b", "Two")), says("Both.")]}
    script |= {"a": [says("1")], "b": [says("2")]}
    members: list[Member] = [Agent("desk", handoffs=[delegate("a"), delegate("b")]), Agent("a"), Agent("b")]
    await Team(members, model=ScriptedModel(script), telemetry=seen.telemetry).run("Go")
    tree = seen.tree()
    assert [line.strip() for line in tree if "handoff" in line] == ["handoff a", "handoff b"]
    assert len([line for line in tree if line.strip() == "invoke_workflow"]) == 3


async def test_the_wait_for_an_approval_is_a_span_that_lasts_as_long_as_the_wait(seen: Seen):
    clock = ManualClock()
    script = {"a": [hands_off("b", "Yours.")], "b": [says("Done.")]}
    members: list[Member] = [Agent("a", handoffs=[handoff("b", approval=True)]), Agent("b")]
    team = Team(members, model=ScriptedModel(script), telemetry=seen.telemetry, clock=clock)
    async with team:
        result = await team.run("Go", conversation="c")
        assert seen.spans == [] or {span.name for span in seen.spans} == {"chat a"}
        await clock.advance(40)
        await team.decide(result.requests[0], Approve(), by="ana")
        await team.resume("c")
    wait = seen.one("approval_wait")
    assert (seconds(wait), told(wait)["changeover.approval.decision"]) == (40.0, "approve")
    assert seconds(seen.one("invoke_workflow")) == 40.0
    assert wait.parent is not None
    assert wait.parent.span_id == seen.one("invoke_agent a").context.span_id


async def test_a_rejected_handoff_and_a_failed_run_are_errors(seen: Seen):
    script = {"a": [hands_off("b", "Yours.")]}
    members: list[Member] = [Agent("a"), Agent("b", accepts=lambda package: Rejected("private reason"))]
    with pytest.raises(ChangeoverError):
        await Team(members, model=ScriptedModel(script), telemetry=seen.telemetry, model_retries=0).run("Go")
    seen.tree()
    for name, kind in {"handoff b": "rejected", "invoke_workflow": "ModelFault"}.items():
        span = seen.one(name)
        assert span.status.status_code is trace.StatusCode.ERROR
        assert told(span)["error.type"] == kind
    failed = [span for span in seen.spans if span.name == "chat a" and not span.status.is_ok]
    assert [told(span)["error.type"] for span in failed] == ["ModelError"]
    assert not [span for span in seen.spans if "private" in span.to_json()]


async def test_a_run_goes_on_in_the_trace_of_its_caller(seen: Seen):
    team = Team([Agent("a")], model=ScriptedModel({"a": [says("Hi.")]}), telemetry=seen.telemetry)
    with seen.provider.get_tracer("app").start_as_current_span("request") as outer:
        await team.run("Hello")
    run = seen.one("invoke_workflow")
    assert run.parent is not None
    assert (run.parent.span_id, run.context.trace_id) == (
        outer.get_span_context().span_id,
        outer.get_span_context().trace_id,
    )


async def test_spans_that_a_tool_makes_are_below_the_span_of_its_call(seen: Seen):
    @tool
    def ask() -> str:
        """Ask another service."""
        with seen.provider.get_tracer("app").start_as_current_span("inner"):
            return "ok"

    script = {"a": [calls(("ask", {})), says("Done.")]}
    await Team([Agent("a", tools=[ask])], model=ScriptedModel(script), telemetry=seen.telemetry).run("Go")
    inner = seen.one("inner")
    assert inner.parent is not None
    assert inner.parent.span_id == seen.one("execute_tool ask").context.span_id


async def test_the_request_of_an_http_tool_names_the_span_of_its_call(seen: Seen):
    with serving() as server:
        act = HttpTool("act", url=f"{server.url}/orders", allow_private=True)
        script = {"a": [calls(("act", {})), says("Done.")]}
        async with Team([Agent("a", tools=[act])], model=ScriptedModel(script), telemetry=seen.telemetry) as team:
            await team.run("Go")
    own = seen.one("execute_tool act").context
    assert [each.headers["traceparent"] for each in server.seen] == [f"00-{own.trace_id:032x}-{own.span_id:016x}-01"]


async def test_a_trace_that_is_not_sampled_makes_no_spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    script = {"a": [hands_off("b", "Yours.")], "b": [says("Done.")]}
    await Team(
        [Agent("a"), Agent("b")], model=ScriptedModel(script), telemetry=Telemetry(tracer_provider=provider)
    ).run("Go")
    assert exporter.get_finished_spans() == ()


async def test_a_resumed_run_is_linked_with_the_run_that_failed(seen: Seen):
    script = {"a": [hands_off("b", "Yours.")], "b": [says("the reply that failed"), says("Done.")]}
    broken = Team([Agent("a"), Agent("b")], model=ScriptedModel({"a": script["a"]}), telemetry=seen.telemetry)
    with pytest.raises(ChangeoverError):
        await broken.run("Go", conversation="c")
    mended = Team([Agent("a"), Agent("b")], model=ScriptedModel(script), telemetry=seen.telemetry, store=broken.log)
    assert (await mended.resume("c")).text == "Done."
    first, again = (span for span in seen.spans if span.name == "invoke_workflow")
    assert linked(again) == [first.context.span_id]
    assert again.context.trace_id == first.context.trace_id
    seen.tree()


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.observe.test_telemetry import queue_team, exported
from changeover import Worker

async def main(store, out):
    seen, team = queue_team(store)
    async with team:
        worker = Worker(team, agents=["law"], name="w")
        serving = asyncio.ensure_future(worker.run())
        while not Path(out + ".stop").exists():
            await asyncio.sleep(0.02)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    exported(seen, out)

asyncio.run(main(*sys.argv[1:]))
"""


def queue_team(store: str) -> tuple[Seen, Team]:
    """A desk that asks a lawyer, whose work waits in a queue."""
    seen = Seen()
    script = {"desk": [delegates("law", "Legal?"), says("Yes.")], "law": [says("It is.")]}
    members: list[Member] = [Agent("desk", handoffs=[delegate("law")]), Agent("law", pull=True, handoffs=())]
    return seen, Team(members, model=ScriptedModel(script), telemetry=seen.telemetry, store=f"sqlite:///{store}")


def exported(seen: Seen, file: str) -> None:
    """Write a line for each span."""
    Path(file).write_text("\n".join(map(line_of, seen.spans)))


def line_of(span: ReadableSpan) -> str:
    """Trace, id, parent and name of a span."""
    return f"{span.context.trace_id} {span.context.span_id} {span.parent.span_id if span.parent else 0} {span.name}"


def assert_one_tree(lines: Sequence[Sequence[str]]) -> None:
    assert len({trace for trace, *_ in lines}) == 1
    ids = {id for _, id, *_ in lines}
    assert len(ids) == len(lines)
    assert {parent for _, _, parent, _ in lines} <= {*ids, "0"}
    assert [name for *_, parent, name in lines if parent == "0"] == ["invoke_workflow"]


async def test_the_spans_of_a_worker_in_another_process_belong_to_the_trace_of_the_caller(tmp_path: Path):
    seen, team = queue_team(str(tmp_path / "desk.db"))
    out = tmp_path / "spans"
    async with team:
        waits = await team.run("May I?", conversation="c")
        assert waits.status == "waiting"
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, str(tmp_path / "desk.db"), str(out), stderr=subprocess.PIPE
        )
        result = waits
        while result.status == "waiting":
            await asyncio.sleep(0.05)
            result = await team.resume("c")
        await asyncio.to_thread(Path(f"{out}.stop").touch)
        _, wrong = await worker.communicate()
        assert worker.returncode == 0, wrong.decode()
    assert result.text == "Yes."
    lines = [line.split(" ", 3) for line in (*out.read_text().splitlines(), *map(line_of, seen.spans))]
    assert_one_tree(lines)
    assert "queue_wait" in {name for *_, name in lines}


DYING = """
import asyncio, sys
from tests.observe.test_telemetry import Hanging, Noting, Seen, relay_team

async def main(store, out):
    seen = Seen(Noting(out))
    await relay_team(seen, store, Hanging).run("Go", conversation="c")

asyncio.run(main(*sys.argv[1:]))
"""


class Hanging(ScriptedModel):
    """A model that says when b is asked, and never answers for it."""

    async def reply(self, request: Request) -> Reply:
        if request.agent == "b":
            print("asked", flush=True)
            await asyncio.Event().wait()
        return await super().reply(request)


class Noting(SpanExporter):
    """Writes each span to a file as it ends: the process may be killed at any time."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._file.open("a") as file:
            file.writelines(f"{line_of(span)}\n" for span in spans)
        return SpanExportResult.SUCCESS


def relay_team(seen: Seen, store: str, model: type[ScriptedModel] = ScriptedModel) -> Team:
    script = {"a": [hands_off("b", "Yours.")], "b": [says("Done.")]}
    members: list[Member] = [Agent("a"), Agent("b", handoffs=())]
    kept = Store(f"sqlite:///{store}", lease=1.0)
    return Team(members, model=model(script), telemetry=seen.telemetry, store=kept)


async def test_a_run_of_a_killed_process_is_one_tree_with_the_process_that_takes_it_over(seen: Seen, tmp_path: Path):
    store, out = str(tmp_path / "desk.db"), tmp_path / "spans"
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DYING, store, str(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert first.stdout is not None
    assert await first.stdout.readline() == b"asked\n"
    first.kill()
    await first.communicate()
    # The second process finds in the log when the run and the leg of b began.
    async with relay_team(seen, store) as second:
        assert (await second.resume("c")).status == "completed"
    before, after = out.read_text().splitlines(), [line_of(span) for span in seen.spans]
    assert sorted(line.split(" ", 3)[3] for line in before) == ["chat a", "handoff b", "invoke_agent a"]
    assert sorted(line.split(" ", 3)[3] for line in after) == ["chat b", "invoke_agent b", "invoke_workflow"]
    assert_one_tree([line.split(" ", 3) for line in before + after])


def test_telemetry_must_be_telemetry():
    with pytest.raises(MisconfiguredError, match=r"telemetry='yes' is not True, False or Telemetry"):
        Team([Agent("a")], telemetry="yes")  # type: ignore[arg-type]


async def test_a_package_that_code_offers_is_traced(seen: Seen):
    team = Team([Agent("a")], model=ScriptedModel({"a": [says("Done.")]}), telemetry=seen.telemetry)
    await team.offer(HandoffPackage(metadata=Metadata(receiver="a"), task=Task(description="Do it")))
    assert seen.tree()[0] == "invoke_workflow"


async def test_a_request_to_the_server_is_the_parent_of_the_run_that_it_begins(seen: Seen):
    team = Team([Agent("a")], model=ScriptedModel({"a": [says("Hi.")]}), telemetry=seen.telemetry)
    app = create_app(team, Settings(open_access=True, rate=0))
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with team, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        said = {"text": "Hello"}
        answer = await client.post(
            "/api/v1/conversations", params={"wait": True}, json=said, headers={"traceparent": given}
        )
        assert answer.status_code < 300, answer.text
    run = seen.one("invoke_workflow")
    assert run.parent is not None
    assert (f"{run.context.trace_id:032x}", f"{run.parent.span_id:016x}") == tuple(given.split("-")[1:3])


async def test_handoffs_calls_and_tokens_are_counted_by_the_meter_of_the_program(seen: Seen):
    reader = InMemoryMetricReader()
    telemetry = Telemetry(tracer_provider=seen.provider, meter_provider=MeterProvider(metric_readers=[reader]))
    script = {"a": [hands_off("b", "Yours.")], "b": [says("Done.")]}
    await Team([Agent("a"), Agent("b")], model=ScriptedModel(script), telemetry=telemetry).run("Go")
    data: Any = reader.get_metrics_data()
    found = {metric.name: metric.data.data_points for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    [handed] = found["changeover.handoffs"]
    assert (handed.value, handed.attributes["changeover.handoff.outcome"]) == (1, "accepted")
    assert sum(point.count for point in found["gen_ai.client.operation.duration"]) == 2
    assert [point.value for point in found["changeover.runs"]] == [1]


@pytest.mark.parametrize("tracers", [TracerProvider(sampler=ALWAYS_OFF), trace.NoOpTracerProvider()])
async def test_runs_handoffs_and_calls_are_counted_whether_or_not_their_trace_is_sampled(tracers: trace.TracerProvider):
    reader = InMemoryMetricReader()
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=MeterProvider(metric_readers=[reader]))
    script = {"a": [calls(("look_up", {})), hands_off("b", "Yours.")], "b": [says("Done.")]}
    members: list[Member] = [Agent("a", tools=[look_up]), Agent("b")]
    await Team(members, model=ScriptedModel(script), telemetry=telemetry).run("Go")
    data: Any = reader.get_metrics_data()
    found = {metric.name: metric.data.data_points for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    assert [point.value for point in found["changeover.runs"]] == [1]
    assert [point.value for point in found["changeover.handoffs"]] == [1]
    assert sum(point.count for point in found["gen_ai.client.operation.duration"]) == 4


async def test_spans_that_a_tool_makes_are_not_sampled_if_its_run_is_not(seen: Seen):
    @tool
    def ask() -> str:
        """Ask another service."""
        with seen.provider.get_tracer("app").start_as_current_span("inner"):
            return "ok"

    script = {"a": [calls(("ask", {})), says("Done.")]}
    unsampled = Telemetry(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    await Team([Agent("a", tools=[ask])], model=ScriptedModel(script), telemetry=unsampled).run("Go")
    assert seen.spans == []


def test_events_with_a_gap_before_or_between_them_need_the_log():
    tracing = tracing_of(True, MemoryLog, lambda: None)
    assert tracing is not None

    def at(*positions: int) -> list[Recorded]:
        return [Recorded(each, 0.0, "c", "a", RunCompleted(0, ""), each) for each in positions]

    assert tracing.ready(at(0, 1, 2))
    assert not tracing.ready(at(1, 2))
    assert not tracing.ready(at(0, 2))


async def test_each_team_is_read_by_a_meter_that_several_teams_use(seen: Seen):
    reader = InMemoryMetricReader()
    telemetry = Telemetry(tracer_provider=seen.provider, meter_provider=MeterProvider(metric_readers=[reader]))
    teams = [
        Team([Agent("a")], name=name, model=ScriptedModel({"a": [says("Done.")] * 2}), telemetry=telemetry)
        for name in ("desk", "shop")
    ]
    for team in (*teams, teams[1]):
        await team.run("Go")
    data: Any = await asyncio.to_thread(reader.get_metrics_data)
    found = {metric.name: metric.data.data_points for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    appended = {point.attributes["changeover.team"]: point.value for point in found["changeover.store.appends"]}
    assert appended == {"desk": 2, "shop": 4}


def test_the_environment_asks_for_export(monkeypatch: pytest.MonkeyPatch):
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert telemetry_of_environment() is None
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert telemetry_of_environment() is None
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(MisconfiguredError, match="zipkin"):
        telemetry_of_environment()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    found = telemetry_of_environment()
    assert found is not None
    found.tracer_provider.shutdown()
    found.meter_provider.shutdown()
