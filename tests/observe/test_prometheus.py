"""What a scraper reads: well-formed, equal to the metrics in Python, with few labels, and rules that hold for it."""

import re
from importlib.resources import files
from pathlib import Path

import httpx2 as httpx
import pytest

from changeover import Agent, Limits, Member, Team, delegate, handoff
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


def test_the_alert_rules_are_valid_and_name_figures_that_there_are(tmp_path: Path):
    rules = files("changeover.observe").joinpath("alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(rules)
    assert promtool("check", "rules", str(tmp_path / "alerts.yml")) == ""
    source = files("changeover.observe").joinpath("prometheus.py").read_text()
    for name in re.findall(r"changeover_\w+", rules):
        assert f'"{name.removesuffix("_total")}"' in source, name
