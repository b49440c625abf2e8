"""`metrics`: how handoffs went, as tables that fit a terminal, plain lines in a pipe, JSON for programs."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team, handoff
from changeover.cli.metrics import duration
from changeover.models import Usage
from changeover.protocol import Rejected
from changeover.testing import ManualClock, ScriptedModel, hands_off, says
from tests.cli.process import CONTROL, Done, changeover, on_a_terminal, one_by_one

COMMANDS = {
    "all": ["metrics"],
    "of late": ["metrics", "--window", "1h"],
    "as JSON": ["metrics", "--json"],
    "of one": ["metrics", "--agent", "shy", "--json"],
    "of a stranger": ["metrics", "--agent", "ada", "--window", "2h"],
    "of the last second": ["metrics", "--window", "0.001s"],
    "of all times": ["metrics", "--window", "999999999w", "--json"],
    "of no time": ["metrics", "--window", "0s"],
    "of yesterday": ["metrics", "--window", "yesterday"],
}


def reply(agent: str, messages: Any, tools: Any) -> Any:
    """The desk hands over to whom the user names."""
    if agent == "clerk":
        return says("Three.", usage=Usage(1000, 500, 1, 0.25))
    return hands_off(messages[0].text, "count") if len(messages) == 1 else says("Then not.")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store: a clerk took one task a week ago and three just now, and somebody shy took none."""
    folder = tmp_path_factory.mktemp("office")
    clock = ManualClock(time.time() - 7 * 86_400)
    members = [
        Agent("desk", handoffs=[handoff("clerk"), handoff("shy")]),
        Agent("clerk", handoffs=()),
        Agent("shy", handoffs=(), accepts=lambda package: Rejected("not today")),
    ]
    store = f"sqlite:///{folder / 'changeover.db'}"

    async def work() -> None:
        team = Team(members, model=ScriptedModel(reply), store=store, clock=clock)
        await team.run("clerk")
        await clock.advance(time.time() - 60 - clock.now())
        for receiver in ("clerk", "clerk", "clerk", "shy"):
            await team.run(receiver)
        await team.close()

    asyncio.run(work())
    return folder


@pytest.fixture(scope="module")
def seen(office: Path) -> dict[str, Done]:
    return one_by_one(COMMANDS, office)


def test_agents_and_pairs_are_plain_lines_in_a_pipe(seen: dict[str, Done]):
    done = seen["all"]
    assert (done.returncode, done.stderr, CONTROL.findall(done.stdout)) == (0, "", [])
    assert [re.split(r" {2,}", line) for line in done.stdout.splitlines()] == [
        ["agent", "handoffs", "success", "accepted p50/p95", "worked p50/p95", "tokens", "cost", "sent", "other"],
        ["clerk", "4", "100%", "0ms / 0ms", "0ms / 0ms", "6.0k", "$1.00"],
        ["desk", "5"],
        ["shy", "1", "0%", "1 rejected"],
        [""],
        ["from → to", "handoffs", "success", "accepted p50/p95", "worked p50/p95", "other"],
        ["desk → clerk", "4", "100%", "0ms / 0ms", "0ms / 0ms"],
        ["desk → shy", "1", "0%", "1 rejected"],
    ]


def test_a_window_leaves_out_what_was_before_it(seen: dict[str, Done]):
    assert re.search(r"^clerk +3 +100%", seen["of late"].stdout, re.M)
    assert seen["of the last second"].stderr == "no agent has worked in this store in the last 0.001s\n"
    assert (seen["of the last second"].returncode, seen["of the last second"].stdout) == (0, "")


def test_json_has_every_figure(seen: dict[str, Done]):
    told = json.loads(seen["as JSON"].stdout)
    assert (told["since"], sorted(told["agents"]), told["totals"]["success_rate"]) == (
        None,
        ["clerk", "desk", "shy"],
        0.8,
    )
    assert told["agents"]["clerk"]["latency"] == {"count": 4, "mean": 0.0, "p50": 0.0, "p95": 0.0}
    assert [(pair["sender"], pair["receiver"], pair["rejected"]) for pair in told["pairs"]] == [
        ("desk", "clerk", 0),
        ("desk", "shy", 1),
    ]
    one = json.loads(seen["of one"].stdout)
    assert (list(one["agents"]), [pair["receiver"] for pair in one["pairs"]], "totals" in one) == (
        ["shy"],
        ["shy"],
        False,
    )


def test_a_window_may_be_longer_than_any_calendar(seen: dict[str, Done]):
    told = json.loads(seen["of all times"].stdout)
    assert (told["since"], sorted(told["agents"])) == ("0001-01-03T00:00:00.000+00:00", ["clerk", "desk", "shy"])


def test_an_agent_without_handoffs_is_a_message(seen: dict[str, Done]):
    done = seen["of a stranger"]
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "ada has no handoffs in the last 2h\n"


@pytest.mark.parametrize("name", ["of no time", "of yesterday"])
def test_a_window_that_is_not_a_duration_is_wrong_use(seen: dict[str, Done], name: str):
    assert (seen[name].returncode, seen[name].stdout) == (2, "")
    assert "is not a duration, such as 90s, 15m, 1h or 7d" in " ".join(seen[name].stderr.replace("│", " ").split())


def test_an_empty_store_has_nothing_to_show(tmp_path: Path):
    assert changeover("db", "upgrade", at=tmp_path).returncode == 0
    done = changeover("metrics", at=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no agent has worked in this store yet\n")


@pytest.mark.parametrize(("columns", "bar", "slow"), [(80, "███", False), (120, "█████", True)])
def test_a_terminal_gets_bars_and_lines_that_fit(office: Path, columns: int, bar: str, slow: bool):
    shown, code = on_a_terminal("metrics", at=office, columns=columns, NO_COLOR="1")
    assert (code, CONTROL.findall(shown)) == (0, [])
    assert max(map(len, shown.splitlines())) <= columns
    assert re.search(rf"^clerk +4 {bar} +100% {bar} ", shown, re.M)
    assert re.search(r"^shy +1 [▏▎▍▌▋▊▉█]+ +0% ", shown, re.M)
    assert ("0ms / 0ms" in shown) is slow
    assert re.search(r"^desk +5$" if slow else r"^desk +5 sent$", shown, re.M)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0ms"),
        (0.0123, "12ms"),
        (0.0996, "0.1s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (99.6, "2m"),
        (5969, "99m"),
        (5971, "2h"),
        (72 * 3600, "3d"),
    ],
)
def test_a_duration_is_shown_in_one_unit(seconds: float, words: str):
    assert duration(seconds) == words
