"""`bus` and `schedules`: the same by a store and by a server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import Done, changeover
from tests.databases import empty_file
from tests.server.process import ADMIN, Server, serving, until

SHOP = """
from pathlib import Path

from changeover import Agent, Team
from changeover.bus import Schedule, Subscription
from changeover.testing import ScriptedModel, says


def pack(event):
    if not Path(__file__).with_name("line").exists():
        raise OSError("no line")


team = Team(
    [Agent("clerk")],
    model=ScriptedModel(lambda agent, messages, tools: says("Filed.")),
    subscriptions=[
        Subscription("order.*", to=pack, name="packing", tries=1),
        Subscription("order.late", to="clerk", name="letters", task="Write about {data.order}"),
    ],
    schedules=[Schedule("weekly", cron="0 7 * * 1", timezone="Europe/Berlin", start="clerk", task="Report.")],
)
"""
TIME = re.compile(r"\d+-\d+-\d+[ T]\d+:\d+:\d+")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    empty_file(folder / "changeover.db")
    return folder


@pytest.fixture(scope="module")
def late(shop: Path) -> str:
    """The id of an event for two subscribers, which nobody has delivered yet."""
    done = by_store(shop, "bus", "publish", "order.late", "--data", '{"order": 7}', "--source", "till", "--key", "k")
    assert (done.returncode, done.stderr) == (0, "for: letters, packing\n")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def server(shop: Path, late: str) -> Iterator[Server]:
    with serving(f"sqlite:///{shop / 'changeover.db'}", "--token", ADMIN, team=str(shop / "shop.py")) as found:
        yield found


def by_store(shop: Path, *command: str, stdin: str = "") -> Done:
    return changeover(*command, at=shop, stdin=stdin, CHANGEOVER_TEAM="shop.py")


def by_server(server: Server, *command: str) -> Done:
    return changeover(*command, "--server", server.url, CHANGEOVER_TOKEN=ADMIN)


def test_an_event_waits_in_the_store_until_a_process_serves_the_team(shop: Path, late: str):
    listed = by_store(shop, "bus")
    assert re.fullmatch(
        rf"event +at +type +source +deliveries\n{late} +\S+ \S+ +order.late +till +2 waiting\n", listed.stdout
    )
    again = by_store(
        shop,
        "bus",
        "publish",
        "order.late",
        "--data",
        "-",
        "--source",
        "till",
        "--key",
        "k",
        "--json",
        stdin='{"order": 7}',
    )
    assert json.loads(again.stdout)["id"] == late
    nothing = by_store(shop, "bus", "publish", "stock.low")
    assert (nothing.returncode, nothing.stderr) == (0, "no subscriber wants it\n")


def test_subscribers_are_listed_with_what_waits_for_them(shop: Path, late: str):
    head, *lines = by_store(shop, "bus", "subscribers").stdout.splitlines()
    assert head.split() == ["subscriber", "events", "waiting", "since", "dead", "starts"]
    assert [TIME.sub("TIME", " ".join(line.split())) for line in lines] == [
        "packing order.* 1 TIME 0 function pack",
        "letters order.late 1 TIME 0 agent clerk",
    ]
    assert json.loads(by_store(shop, "bus", "subscribers", "--json").stdout)[0]["waiting"] == 1
    told = changeover("bus", "subscribers", at=shop).stderr
    assert told.endswith("to list those of a team: changeover bus subscribers --team TEAM\n")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["publish", "order late"], "'order late' is no type of an event"),
        (["publish", "order.late", "--data", "{"], "--data is not JSON"),
        (["show", "nothing"], "there is no event 'nothing'; see: changeover bus list"),
        (["retry", "nothing"], "there is no event 'nothing'; see: changeover bus list"),
    ],
)
def test_a_mistake_is_told_and_exits_with_1(shop: Path, command: list[str], why: str):
    done = by_store(shop, "bus", *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"changeover: {why}"), done.stderr


def test_a_dead_letter_is_listed_shown_and_sent_again_by_store_and_server(shop: Path, late: str, server: Server):
    letters = until(lambda: json.loads(by_server(server, "bus", "list", "--dead", "--json").stdout))
    assert [(each["event"], each["subscriber"], each["error"]) for each in letters] == [
        (late, "packing", "OSError: no line")
    ]
    until(lambda: "done" in by_server(server, "bus", "list", "--type", "order.late").stdout)
    same = (["list"], ["list", "--dead"], ["list", "--type", "order.late", "--json"], ["show", late], ["subscribers"])
    for command in same:
        here, there = by_store(shop, "bus", *command), by_server(server, "bus", *command)
        assert (there.returncode, there.stdout) == (0, here.stdout), there.stderr
    shown = by_store(shop, "bus", "show", late).stdout
    assert re.search(r'data +\{"order": 7\}', shown)
    assert re.search(r"packing +dead +1 +OSError: no line", shown)
    (shop / "line").touch()
    done = by_server(server, "bus", "retry", late, "--subscriber", "packing")
    assert (done.returncode, done.stdout) == (0, f"1 delivery of {late} begins again\n"), done.stderr
    until(lambda: "2 done" in by_server(server, "bus", "list", "--type", "order.late").stdout)
    nothing = by_store(shop, "bus", "retry", late)
    assert nothing.stderr == f"changeover: {late} has no dead letter; see: changeover bus show {late}\n"


def test_schedules_are_listed_shown_run_paused_and_resumed_by_store_and_server(shop: Path, server: Server):
    for command in (["list"], ["show", "weekly"], ["show", "weekly", "--json"]):
        here, there = by_store(shop, "schedules", *command), by_server(server, "schedules", *command)
        assert (there.returncode, there.stdout) == (0, here.stdout), there.stderr
    assert re.search(r"weekly +0 7 \* \* 1 +Europe/Berlin +\S+ \S+ +agent clerk\n", by_store(shop, "schedules").stdout)
    paused = by_server(server, "schedules", "pause", "weekly")
    assert paused.stdout == "weekly is paused; to change that: changeover schedules resume weekly\n"
    assert re.search(r"Europe/Berlin +paused", by_store(shop, "schedules", "list").stdout)
    event = by_store(shop, "schedules", "run", "weekly").stdout.strip()
    assert by_server(server, "schedules", "resume", "weekly").stdout == "weekly runs again at its due times\n"
    until(lambda: "done" in by_server(server, "bus", "show", event).stdout)
    assert len(TIME.findall(by_store(shop, "schedules", "show", "weekly").stdout)) >= 5
    missing = by_server(server, "schedules", "run", "daily")
    assert missing.stderr == "changeover: no schedule is called 'daily'; this team has: weekly\n"
