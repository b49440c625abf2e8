"""Every store command prints the same by `--store` and by `--server`, on the same data and with a real server."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from changeover.stores.store import Store, open_log
from tests.cli.process import Done, changeover
from tests.databases import empty_file
from tests.server.desk import team as desk
from tests.server.process import ADMIN, Server, serving


async def filled(url: str) -> str:
    """Fill a store: a run that is over, one that waits for a person, one that waits for a worker, one that failed, and
    an open breaker. Returns the id of the request."""
    team = desk.on(url)
    for id, text, user in (
        ("ada", "hello", "ada"),
        ("bob", "a refund", "bob"),
        ("eve", "fail", "eve"),
        ("kim", "research", "kim"),
    ):
        try:
            await team.run(text, conversation=id, user=user)
        except Exception:
            assert id == "eve"
    [request] = await team.approvals()
    await team.force_breaker("manager")
    for agent in ("research", "nobody"):
        await team.log.agents.switch(agent, True)
    await team.measure("ada", "stars", 5)
    await team.close()
    return request.id


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{empty_file(tmp_path_factory.mktemp('stores') / 'store.db')}"
    asyncio.run(filled(url))
    return url


@pytest.fixture(scope="module")
def server(store: str) -> Iterator[Server]:
    with serving(store, "--token", ADMIN) as found:
        yield found


HANDOFF = "bob:3.0"
OF_THE_DESK = "--team tests/server/desk.py:team"
COMMANDS = [
    "conversations list",
    "conversations list --json --delegates --limit 2",
    "conversations list --status waiting --user bob",
    "conversations list --search REFUND",
    "conversations flow bob",
    "conversations flow nobody --json",
    "tasks list --json",
    "tasks list --agent billing --conversation bob",
    "tasks show bob#5",
    "tasks show nobody#5",
    "handoffs list",
    "handoffs list --state WORKING --json",
    f"handoffs show {HANDOFF}",
    "handoffs show nothing",
    "handoffs stuck",
    f"handoffs retry {HANDOFF}",
    "handoffs retry nothing",
    "approvals list",
    "approvals list --status all --json",
    "agents list",
    f"agents list {OF_THE_DESK} --json",
    "agents disable research",
    "agents enable research",
    "agents disable nobody",
    "agents describe helper --description Helps --capability help",
    "agents show helper",
    "agents show nobody",
    "agents remove helper",
    "agents describe helper --max-concurrency 2",
    "breakers list --json",
    "breakers open research",
    "breakers reset research",
    "router list",
    "router reset",
    "metrics --json",
    "metrics --window 1h",
    "experiments list",
    "experiments show nothing",
    "graph bob",
    "graph bob --format mermaid",
    "graph nobody",
    "tokens list",
    "tokens revoke nobody",
    "tokens add ada --role worker",
    f"workflows list {OF_THE_DESK}",
    f"workflows show nothing {OF_THE_DESK}",
    f"workflows start nothing {OF_THE_DESK}",
    f"workflows retry nobody count {OF_THE_DESK}",
    f"bus list {OF_THE_DESK}",
    f"bus publish late --data {{ {OF_THE_DESK}",
    f"bus subscribers {OF_THE_DESK}",
    f"bus show nothing {OF_THE_DESK}",
    f"bus retry nothing {OF_THE_DESK}",
    f"schedules list {OF_THE_DESK}",
    f"schedules show nothing {OF_THE_DESK}",
    f"schedules run nothing {OF_THE_DESK}",
    f"schedules pause nothing {OF_THE_DESK}",
    f"schedules resume nothing {OF_THE_DESK}",
]

DECLARING = [
    "agents add helper --description Helps --capability help",
    "agents add helper --description Again",
    "agents edit helper --set instructions=Help.",
    "agents edit helper --set instructions=Again. --expect 1",
    "agents edit nobody --set instructions=Help.",
    "agents history helper",
    "agents show helper",
    "agents disable helper",
    "agents list",
    "agents enable helper",
    "tools add look --set type=http_api --set url=http://127.0.0.1:9/orders",
    "tools add odd --set type=odd",
    "tools list",
    "tools show look --json",
    'tools test look --args {"id":7}',
    "tools test look --args 7",
    "tools edit look --file -",
    "tools history look",
    "tools disable look",
    "tools enable look",
    "tools remove look",
    "skills add manners --set description=Manners --set instructions=Greet.",
    "skills list --all --json",
    "skills show manners",
    "skills edit manners --set instructions=Bow.",
    "skills history manners --json",
    "skills disable manners",
    "skills enable manners",
    "skills remove manners",
    "import -",
    "import - --yes",
    "export",
    "agents remove helper",
]
"""Commands that declare a team, which build upon each other, and the input of those that read it."""
TYPED = {
    "tools edit look --file -": "{type: http_api, url: 'http://127.0.0.1:9/invoices'}",
    "import -": "agents: {clerk: {description: Files letters}}",
    "import - --yes": "agents: {clerk: {description: Files letters}}",
}

BEFORE = {"breakers reset research": "breakers open research"}
"""What makes a command that changes the store do the same a second time."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_the_same_by_a_store_and_by_a_server(command: str, store: str, server: Server):
    by_store = changeover(*command.split(), CHANGEOVER_STORE=store)
    if before := BEFORE.get(command):
        assert changeover(*before.split(), CHANGEOVER_STORE=store).returncode == 0
    by_server = changeover(*command.split(), CHANGEOVER_SERVER=server.url, CHANGEOVER_TOKEN=ADMIN)
    assert shown(by_server) == shown(by_store)
    assert by_store.stdout or by_store.stderr


TIME = re.compile(r'"(until|at|updated_at)": "[^"]*"|\d+-\d+-\d+[ T]\d+:\d+(:\d+(\.\d+)?)?')


def shown(done: Done) -> tuple[str, str, int]:
    """What a command said, without the times at which it was asked and what it shows was written."""
    return TIME.sub("", done.stdout), TIME.sub("", done.stderr), done.returncode


def test_a_team_is_declared_by_a_server_as_by_a_store(tmp_path: Path):
    stores = [f"sqlite:///{empty_file(tmp_path / name)}" for name in ("here.db", "there.db")]
    differing = []
    with serving(stores[1], "--token", ADMIN) as server:
        for command in DECLARING:
            typed = TYPED.get(command, "")
            here = changeover(*command.split(), stdin=typed, CHANGEOVER_STORE=stores[0])
            there = changeover(*command.split(), stdin=typed, CHANGEOVER_SERVER=server.url, CHANGEOVER_TOKEN=ADMIN)
            if shown(there) != shown(here) or not (here.stdout or here.stderr):
                differing.append((command, shown(here), shown(there)))
        with server.client() as client:
            audited = client.get("/audit", params={"subject": "agent/helper", "sort": "at"}).json()["items"]
    assert differing == []
    assert [each["action"].removeprefix("declaration.") for each in audited] == [
        *("put", "put", "disabled", "enabled", "removed")
    ]


DECIDING = {
    "approvals approve": (),
    "approvals edit": ('{"amount": 5}',),
    "approvals reject": ("--note", "No."),
    "approvals answer": ("It is paid.",),
    "approvals route": ("manager",),
    "handoffs cancel": ("--reason", "enough"),
}
"""Commands with which a person decides, and what follows the id."""


def test_a_person_decides_by_a_server_and_the_run_goes_on_there(tmp_path: Path):
    with serving(f"sqlite:///{empty_file(tmp_path / 'store.db')}") as server, server.client(None) as client:

        def begun(text: str) -> Any:
            return client.post("/conversations", params={"wait": True}, json={"text": text}).json()["pending"][0]

        def decide(command: str, id: str, *more: str) -> Done:
            return changeover(*command.split(), id, *more, "--by", "ana", "--server", server.url)

        asked = {name: begun("close it" if name.endswith("approve") else "a refund") for name in DECIDING}
        asked["handoffs cancel"] = begun("research it")
        for name, more in DECIDING.items():
            done = decide(name, asked[name]["id"], *more)
            fits = name != "approvals route"  # the call of a tool has no receiver
            assert done.returncode == (0 if fits else 1), (name, done.stderr)
            assert asked[name]["id"] in done.stdout or not fits, done.stdout
        by = {row["id"]: (row["status"], row["decided_by"]) for row in _items(client, "/approvals?status=")}
        assert [by[asked[f"approvals {verb}"]["id"]] for verb in ("approve", "edit", "reject", "answer", "route")] == [
            ("approved", "ana"),
            ("edited", "ana"),
            ("rejected", "ana"),
            ("responded", "ana"),
            ("pending", None),
        ]
        assert [row["state"] for row in _items(client, "/handoffs?receiver=research")] == ["RETURNED"]
        again = decide("approvals reject", asked["approvals approve"]["id"])
        assert (again.returncode, "approved already, by ana" in again.stderr) == (1, True), again.stderr
        ended = decide("handoffs cancel", asked["handoffs cancel"]["id"])
        assert (ended.returncode, "has ended" in ended.stderr) == (1, True), ended.stderr


def _items(client: Any, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(path).json()["items"]
    return found


def test_the_table_has_every_store_command():
    from typer.main import get_command

    from changeover.cli.commands import app

    def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, (*path, name))
        if any("--server" in each.opts for each in command.params):
            yield " ".join(path)

    told = {
        each
        for each in walk(get_command(app))
        if not any(line.startswith(each) for line in (*COMMANDS, *DECLARING, *DECIDING))
    }
    assert told == set()


def test_a_token_that_is_made_by_the_server_is_known_to_the_store(store: str, server: Server):
    made = changeover("tokens", "add", "ada", "--role", "viewer", "--server", server.url, CHANGEOVER_TOKEN=ADMIN)
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()

    async def holder() -> str:
        log = open_log(Store(store))
        try:
            return (await log.tokens.holder(secret)).user
        finally:
            await log.close()

    assert asyncio.run(holder()) == "ada"
    assert "it is shown once" in made.stderr


def test_a_server_without_a_valid_token_says_what_to_give(server: Server):
    for token in ("", "chg_nobody_x"):
        done = changeover("conversations", "list", "--server", server.url, CHANGEOVER_TOKEN=token)
        assert done.returncode == 1
        assert f"the server {server.url} refuses: " in done.stderr
        assert "give a token as CHANGEOVER_TOKEN" in done.stderr


def test_a_server_that_is_down_or_none_is_reported_in_one_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    expected = {
        f"http://127.0.0.1:{port}": f"the server http://127.0.0.1:{port} cannot be reached",
        f"127.0.0.1:{port}": f"write http://127.0.0.1:{port}",
        "http://": "is not the address of a server",
        "http://a:b": "has no valid port",
        "http://ada:secret@localhost": "is not the address of a server",
    }
    for address, message in expected.items():
        done = changeover("tasks", "list", "--server", address, at=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_is_no_changeover_server_is_reported(server: Server):
    done = changeover("tasks", "list", "--server", f"{server.url}/elsewhere", CHANGEOVER_TOKEN=ADMIN)
    assert done.returncode == 1
    assert "no changeover server" in done.stderr or "Not Found" in done.stderr


def test_a_given_store_wins_over_the_server_of_the_environment(store: str):
    done = changeover("conversations", "list", "--store", store, CHANGEOVER_SERVER="http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert "ada" in done.stdout
