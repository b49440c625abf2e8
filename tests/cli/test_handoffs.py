"""`handoffs stuck`, `retry` and `cancel`: what does not move by itself is found, explained, and can be moved."""

import asyncio
import json
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from changeover.protocol import HandoffPackage, Metadata, Task
from tests.cli.process import CONTROL, Done, Started, changeover, on_a_terminal, one_by_one, wait_for
from tests.cli.queues import answer, asked, made, team_at

STUCK = ["handoffs", "stuck"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return made(tmp_path)


def found(folder: Path, *more: str) -> list[dict[str, object]]:
    """What is stuck, as programs are told."""
    done = changeover(*STUCK, "--json", *more, at=folder)
    told: list[dict[str, object]] = json.loads(done.stdout)
    assert done.returncode == (3 if told else 0)
    return told


def left_by_workers(folder: Path, agent: str, times: int) -> None:
    """So many workers took what waits for an agent, and died."""

    async def take() -> None:
        team = team_at(folder)
        for _ in range(times):
            (_claim,) = await team.claim(agent, lease=0.01)
            await asyncio.sleep(0.02)
        await team.close()

    asyncio.run(take())


def test_a_store_without_stuck_work_says_so(shop: Path):
    assert changeover("db", "upgrade", at=shop).returncode == 0
    done = changeover(*STUCK, at=shop)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is stuck\n")
    assert found(shop) == []


def test_an_unclaimed_ticket_is_stuck_with_the_command_that_helps(shop: Path):
    asked(shop, "triage")
    done = changeover(*STUCK, at=shop)
    assert (done.returncode, done.stderr, CONTROL.findall(done.stdout)) == (3, "", [])
    assert re.fullmatch(
        r"triage:3\.0  ticket for billing, since [\d-]+ [\d:]+\n"
        r"  It waits for a worker of billing, and none has claimed it\.\n"
        r"    changeover worker TEAM --agents billing\n",
        done.stdout,
    )
    (told,) = found(shop)
    assert (told["id"], told["kind"], told["agent"], told["attempts"]) == ("triage:3.0", "ticket", "billing", 0)
    assert found(shop, "--older", "1000") == []


def test_the_oldest_come_first_and_a_long_list_says_that_there_is_more(shop: Path):
    asked(shop, "boss", "triage", "hopeful")
    done = changeover(*STUCK, "--json", "--limit", "2", at=shop)
    assert [each["id"] for each in json.loads(done.stdout)] == ["boss:3.0", "triage:3.0"]
    assert done.stderr == "There are more than 2 rows: raise --limit to see them.\n"


def test_what_to_type_names_the_store_and_the_team_if_they_are_known(shop: Path):
    asked(shop, "triage")
    done = changeover(*STUCK, "--store", "sqlite:///changeover.db", at=shop, CHANGEOVER_TEAM="shop.py")
    assert done.stdout.endswith("    changeover worker shop.py --agents billing --store sqlite:///changeover.db\n")


def test_a_ticket_of_a_live_worker_is_not_stuck(shop: Path):
    asked(shop, "patient")
    with Started("worker", "shop.py", at=shop) as worker:
        worker.until("takes")
        assert found(shop) == []
        done = changeover("handoffs", "retry", "patient:3.0", at=shop)
        worker_name = worker.text.partition(" serves ")[0]
        assert done.stdout == (
            f"patient:3.0 was taken from {worker_name}; it waits for a worker of slow, and its attempts are reset\n"
        )


def test_an_escalated_ticket_is_not_stuck_and_cannot_be_retried(shop: Path):
    asked(shop, "boss")
    left_by_workers(shop, "research", 3)
    assert changeover("worker", "shop.py", "--drain", "--agents", "billing", at=shop).returncode == 0
    assert found(shop) == []
    (request,) = json.loads(changeover("approvals", "list", "--json", at=shop).stdout)
    assert request["kind"] == "escalation"
    told = changeover("approvals", "list", at=shop).stdout
    assert "declined by research (3 workers took it, and none finished it): Find out." in told
    again = changeover("handoffs", "retry", "boss:3.0", at=shop)
    assert again.returncode == 1
    assert "boss:3.0 has ended: REJECTED (3 workers took it, and none finished it)" in again.stderr


def test_a_ticket_whose_worker_died_says_how_often_it_was_taken(shop: Path):
    asked(shop, "triage", "boss")
    left_by_workers(shop, "billing", 1)
    left_by_workers(shop, "research", 2)
    assert {each["id"]: (each["attempts"], each["why"]) for each in found(shop)} == {
        "triage:3.0": (1, "It was claimed once and the lease expired; it waits for another worker of billing."),
        "boss:3.0": (2, "It was claimed 2 times and the lease expired; it waits for another worker of research."),
    }


def test_a_ticket_that_was_claimed_too_often_can_be_retried(shop: Path):
    asked(shop, "triage")
    left_by_workers(shop, "billing", 3)
    (told,) = found(shop)
    assert told["why"] == "Workers claimed it 3 times and none finished it; the next worker escalates it to a person."
    assert told["what_to_do"] == "changeover handoffs retry triage:3.0"
    done = changeover("handoffs", "retry", "triage:3.0", at=shop)
    assert done.stdout == "triage:3.0 waits for a worker of billing, and its attempts are reset\n"
    assert [each["attempts"] for each in found(shop)] == [0]
    assert changeover("worker", "shop.py", "--drain", at=shop).returncode == 0
    assert answer(shop, "triage") == "Sent back."


def test_a_conversation_whose_process_died_is_stuck_with_its_handoffs(shop: Path):
    with Started("run", "shop.py", "hi", "--agent", "alone", "--conversation", "ada", at=shop) as run:
        wait_for((shop / "begun").exists)
        assert found(shop) == []
        run.hears(signal.SIGKILL)
    wait_for(lambda: len(found(shop)) == 2)
    told = {each["id"]: each for each in found(shop)}
    assert (told["ada"]["kind"], told["ada:3.0"]["kind"]) == ("conversation", "handoff")
    assert told["ada"]["why"] == "stubborn was working on it when its process ended."
    assert told["ada:3.0"]["why"] == "It is WORKING, and no process works on its conversation."
    assert {each["what_to_do"] for each in told.values()} == {"changeover resume TEAM ada"}
    (shop / "go").touch()
    assert changeover("resume", "shop.py", "ada", at=shop).stdout == "At last.\n"
    assert found(shop) == []


def test_a_ticket_whose_deadline_passed_unseen_is_stuck(shop: Path):
    async def submit() -> None:
        team = team_at(shop)
        await team.open()
        metadata = Metadata(receiver="billing", deadline=datetime.now(UTC) + timedelta(seconds=1))
        await team.submit(HandoffPackage(Task("Be quick."), metadata=metadata))
        await team.close()

    asyncio.run(submit())
    wait_for(lambda: "deadline" in str(found(shop)))
    (told,) = found(shop)
    assert str(told["why"]).startswith("No worker claimed it before its deadline, ")
    assert told["what_to_do"] == f"changeover resume TEAM {told['conversation']}"
    answer(shop, str(told["conversation"]))
    assert re.search(r"^state +TIMEOUT$", changeover("handoffs", "show", str(told["id"]), at=shop).stdout, re.M)
    assert found(shop) == []


def test_a_terminal_of_80_columns_gets_lines_that_fit(shop: Path):
    asked(shop, "triage")
    left_by_workers(shop, "billing", 3)
    plain, code = on_a_terminal(*STUCK, at=shop, NO_COLOR="1")
    assert (code, CONTROL.findall(plain)) == (3, [])
    assert max(map(len, plain.splitlines())) <= 80
    coloured, _ = on_a_terminal(*STUCK, at=shop)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured != plain


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What is cancelled, tried again, and cancelled again."""
    folder = made(tmp_path_factory.mktemp("shop"))
    asked(folder, "triage", "boss", "hopeful", "hasty", "billing")
    team = ["--team", "shop.py"]
    ids = {"delegate": "boss:3.0", "transfer": "hopeful:3.0", "message": "billing:2"}
    commands = {
        "delegate": ["handoffs", "cancel", ids["delegate"], *team, "--reason", "not needed", "--by", "lea"],
        "transfer": ["handoffs", "cancel", ids["transfer"], *team],
        "message": ["handoffs", "cancel", ids["message"], *team],
        **{f"{name} again": ["handoffs", "cancel", id, *team] for name, id in ids.items()},
        **{f"{name} retried": ["handoffs", "retry", id] for name, id in ids.items()},
        "shown": ["handoffs", "show", ids["delegate"]],
        "left": ["handoffs", "stuck", "--json"],
    }
    return one_by_one(commands, folder)


def test_a_cancelled_handoff_returns_to_its_sender_which_continues(ended: dict[str, Done]):
    assert (ended["delegate"].returncode, ended["delegate"].stdout) == (0, "Found out.\n")
    assert (ended["transfer"].returncode, ended["transfer"].stdout) == (0, "Then I will.\n")
    assert re.search(r"^state +RETURNED$", ended["shown"].stdout, re.M)
    assert "not needed" in ended["shown"].stdout
    assert [each["id"] for each in json.loads(ended["left"].stdout)] == ["triage:3.0", "hasty:3.0"]


def test_a_message_that_is_cancelled_ends_its_run(ended: dict[str, Done]):
    done = ended["message"]
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "changeover: the run of billing was cancelled\n"


@pytest.mark.parametrize("what", ["delegate", "transfer", "message"])
def test_an_ended_handoff_cannot_be_cancelled(ended: dict[str, Done], what: str):
    done = ended[f"{what} again"]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(" has ended: RETURNED\n")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("delegate", "boss:3.0 has ended: RETURNED (rolled back: not needed); to have it done after all,"),
        ("transfer", "hopeful:3.0 has ended: RETURNED (rolled back: cancelled); to have it done after all,"),
        ("message", "billing:2 has ended: cancelled"),
    ],
)
def test_an_ended_handoff_cannot_be_retried(ended: dict[str, Done], what: str, why: str):
    done = ended[f"{what} retried"]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"changeover: {why}")
