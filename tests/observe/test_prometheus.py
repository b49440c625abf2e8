"""What a scraper reads: well-formed, equal to the metrics in Python, with few labels, and rules that hold for it."""

import asyncio
import json
import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from changeover import Agent, Limits, Member, Store, Team, Telemetry, delegate, handoff
from changeover.errors import MaxHandoffsExceededError
from changeover.protocol import Rejected
from changeover.server import Settings, create_app
from changeover.testing import ScriptedModel, delegates, hands_off, says
from tests.observe.promtool import promtool

LINE = re.compile(r"^(\w+)(?:\{(.*?)\})? (\S+)$")


@pytest.fixture
def team() -> Team:
    script = {
        "triage": [hands_off("billing", "Charged twice.")] * 3,
        "accounts": [delegates("law", "Legal?"), says("Sent back.")] * 3,
        "law": [says("Yes.")] * 3,
    }
    members: list[Member] = [
        Agent("triage", handoffs=[handoff("billing", alternatives=["accounts"])]),
        Agent("billing", accepts=lambda package: Rejected("no time"), handoffs=()),
        Agent("accounts", handoffs=[delegate("law")]),
        Agent("law", handoffs=()),
        Agent("slow", pull=True, handoffs=()),
    ]
    return Team(members, model=ScriptedModel(script), limits=Limits(max_handoffs=20))


async def scraped(team: Team) -> str:
    app = create_app(team, Settings(open_access=True, rate=0))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answer = await client.get("/api/v1/metrics", params={"format": "prometheus"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


def figures(text: str) -> dict[tuple[str, str], float]:
    """The figures by name and labels."""
    found = (LINE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return {(each[1], each[2] or ""): float(each[3]) for each in found if each}


async def test_what_a_scraper_reads_equals_the_metrics_in_python(team: Team):
    async with team:
        for number in range(2):
            await team.run("Twice!", conversation=f"c{number}")
        await team.run("Slowly", agent="slow", conversation="queued")
        text, metrics = await scraped(team), await team.metrics()
    assert promtool("check", "metrics", given=text.encode()) == ""
    read = figures(text)
    for (sender, receiver), pair in metrics.pairs.items():
        for outcome in ("done", "failed", "rejected", "timeouts", "withdrawn"):
            counted = sum(
                figure
                for (name, labels), figure in read.items()
                if name == "changeover_handoffs_total"
                and f'outcome="{outcome}"' in labels
                and f'sender="{sender}"' in labels
                and f'receiver="{receiver}"' in labels
            )
            assert counted == getattr(pair, outcome), (sender, receiver, outcome)
    for agent, each in metrics.agents.items():
        if each.latency.count:
            assert read["changeover_handoff_latency_seconds_count", f'receiver="{agent}"'] == each.latency.count
        assert read["changeover_tokens_total", f'agent="{agent}",type="input"'] == each.input_tokens
        assert read["changeover_model_replies_total", f'agent="{agent}"'] == each.turns
    assert read["changeover_queue_depth", 'agent="slow"'] == 1
    assert metrics.totals.rejected == 2


@pytest.mark.parametrize("kept", ["in memory", "in a database"])
async def test_the_queue_and_the_writer_count_what_this_process_did(kept: str, tmp_path: Path):
    store = Store(f"sqlite:///{tmp_path}/store.db") if kept == "in a database" else None
    async with Team([Agent("slow", pull=True)], model=ScriptedModel({}), store=store) as team:
        await team.run("Slowly", agent="slow")
        assert await team.claim("slow", lease=0.01)
        await asyncio.sleep(0.05)  # the lease runs out
        assert await team.claim("slow")
        text = await scraped(team)
    assert promtool("check", "metrics", given=text.encode()) == ""
    read = figures(text)
    assert read["changeover_queue_claims_total", 'agent="slow"'] == 2
    assert read["changeover_queue_leases_lost_total", 'agent="slow"'] == 1
    appends, written = read["changeover_store_appends_total", ""], float(store is not None)
    assert appends > 0
    assert read["changeover_store_batch_sum", ""] == appends * written
    assert 0 < read["changeover_store_batch_count", ""] <= appends or not written
    assert read["changeover_store_lag_seconds_count", ""] == read["changeover_store_batch_count", ""]


async def test_clients_that_read_along_are_counted_while_they_are_connected(team: Team):
    async with team:
        live = create_app(team, Settings(open_access=True, rate=0)).state.live
        with live.connected(), live.connected():
            assert figures(await scraped(team))["changeover_stream_readers", ""] == 2
        assert figures(await scraped(team))["changeover_stream_readers", ""] == 0


async def test_a_meter_of_opentelemetry_reads_the_same_figures_until_the_team_is_closed(team: Team, tmp_path: Path):
    reader = InMemoryMetricReader()
    telemetry = Telemetry(tracer_provider=TracerProvider(), meter_provider=MeterProvider(metric_readers=[reader]))
    watched = team.on(Store(f"sqlite:///{tmp_path}/store.db"), telemetry=telemetry)
    async with watched:
        await watched.run("Twice!")
        await watched.run("Slowly", agent="slow")
        await watched.force_breaker("law")
        read = figures(await scraped(watched))
        metered = observed(reader)
    assert metered["changeover.queue.depth"] == {("slow",): 1.0}
    assert metered["changeover.breaker.open"] == {("law",): 1.0}
    assert metered["changeover.store.appends"][()] == read["changeover_store_appends_total", ""] > 0
    assert metered["changeover.store.batch.sum"] == metered["changeover.store.appends"]
    assert metered["changeover.store.lag.count"][()] == read["changeover_store_lag_seconds_count", ""]
    assert metered["changeover.stream.readers"] == {(): 0.0}
    assert watched._log is None
    observed(reader)
    assert watched._log is None, "a meter must not open a store again"


@pytest.mark.parametrize(("most", "reached", "cycles"), [(1, 1, 0), (20, 0, 1)])
async def test_limits_refusals_and_deadlocks_are_read_by_a_meter(most: int, reached: int, cycles: int):
    reader = InMemoryMetricReader()
    telemetry = Telemetry(tracer_provider=TracerProvider(), meter_provider=MeterProvider(metric_readers=[reader]))
    script = {"a": [hands_off("b", "You.")] * 2 + [says("I will.")], "b": [hands_off("a", "No, you."), says("I will.")]}
    limits = Limits(max_handoffs=most)
    team = Team([Agent("a"), Agent("b")], model=ScriptedModel(script), limits=limits, telemetry=telemetry)
    async with team:
        with suppress(MaxHandoffsExceededError):
            await team.run("Go")
        metrics, metered = await team.metrics(), observed(reader)
    assert (sum(metrics.limits.values()), metrics.totals.deadlocks) == (reached, cycles)
    assert metered.get("changeover.limits.reached", {}) == {(name,): count for name, count in metrics.limits.items()}
    for name, counted in (("refusals", "refused"), ("deadlocks", "deadlocks")):
        expected = {pair: found for pair, each in metrics.pairs.items() if (found := getattr(each, counted))}
        assert metered.get(f"changeover.{name}", {}) == expected


def observed(reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], float]]:
    """The figures of a meter by name and the values of their attributes, without the team."""
    data: Any = reader.get_metrics_data()
    return {
        metric.name: {
            tuple(value for name, value in point.attributes.items() if name != "changeover.team"): point.value
            for point in metric.data.data_points
        }
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if hasattr(metric.data.data_points[0], "value")
    }


async def test_a_name_that_is_no_member_is_other(team: Team):
    async with team:
        await team.run("Twice!", conversation="c")
        found = Team([Agent("triage")], model=ScriptedModel({}), store=team.log)
        labels = {labels for name, labels in figures(await scraped(found)) if name == "changeover_handoffs_total"}
    assert {part for each in labels for part in each.split(",") if "er=" in part} == {
        'receiver="other"',
        'sender="other"',
        'sender="triage"',
    }


async def test_an_empty_store_gives_figures_that_are_well_formed(team: Team):
    async with team:
        assert promtool("check", "metrics", given=(await scraped(team)).encode()) == ""


async def test_the_alert_rules_are_valid_and_name_figures_that_there_are(tmp_path: Path, team: Team):
    rules = files("changeover.observe").joinpath("alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(rules)
    assert promtool("check", "rules", str(tmp_path / "alerts.yml")) == ""
    async with team:
        declared = re.findall(r"^# TYPE (\w+)", await scraped(team), re.MULTILINE)
    assert set(re.findall(r"changeover_\w+", rules)) <= set(declared)


class Alert(NamedTuple):
    """When an alert fires: the minute, and its labels and summary."""

    name: str
    series: str
    quiet: str
    """Values, one a minute, at which it never fires."""
    loud: str
    minute: int
    """When it fires for the values of `loud`; a minute before it does not."""
    severity: str
    labels: dict[str, str]
    summary: str


ALERTS = [
    Alert(
        "ChangeoverBreakerOpen",
        'changeover_breaker_open{agent="billing"}',
        "1 1 1 1 0x60",
        "1x60",
        5,
        "warning",
        {"agent": "billing"},
        "billing takes no handoffs: its circuit breaker is open",
    ),
    Alert(
        "ChangeoverTicketsStuck",
        'changeover_queue_oldest_seconds{agent="slow"}',
        "900x60",
        "0+60x60",
        21,
        "warning",
        {"agent": "slow"},
        "work for slow waits for 21m 0s",
    ),
    Alert(
        "ChangeoverApprovalWaiting",
        "changeover_approval_oldest_seconds",
        "3600x60",
        "3540+60x60",
        7,
        "warning",
        {},
        "a person has been asked 1h 6m 0s ago and has not decided",
    ),
    Alert(
        "ChangeoverCostOverBudget",
        'changeover_cost_dollars_total{agent="billing"}',
        "0+1x60",
        "0+20x60",
        6,
        "critical",
        {},
        "120 dollars in a day are more than the budget of 100",
    ),
]


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path):
    rules = files("changeover.observe").joinpath("alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(rules)
    assert sorted(alert.name for alert in ALERTS) == sorted(re.findall(r"- alert: (\w+)", rules))
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": alert.series, "values": values}],
            "alert_rule_test": [
                {"eval_time": f"{minute}m", "alertname": alert.name, "exp_alerts": fired} for minute, fired in expected
            ],
        }
        for alert in ALERTS
        for values, expected in (
            (alert.quiet, [(minute, []) for minute in range(0, 61, 5)]),
            (alert.loud, [(alert.minute - 1, []), (alert.minute, [fired(alert, rules)])]),
        )
    ]
    # YAML reads JSON.
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": cases}))
    assert promtool("test", "rules", str(tmp_path / "tests.yml")) == ""


def fired(alert: Alert, rules: str) -> dict[str, Any]:
    """The alert as promtool expects it; its description is that of the rules."""
    described = re.findall(r'description: "(.*)"', rules[rules.index(alert.name) :])[0]
    description = described.replace("{{ $labels.agent }}", alert.labels.get("agent", ""))
    return {
        "exp_labels": {"severity": alert.severity, **alert.labels},
        "exp_annotations": {"summary": alert.summary, "description": description},
    }
