"""`chat`: text as it is written, handoffs as lines, approvals asked, and nothing lost by leaving."""

import asyncio
import re
from pathlib import Path

from tests.cli.process import CONTROL, YOU, Started, changeover, on_a_terminal, wait_for
from tests.cli.queues import made, team_at

ASKED = "Enter for later: "

BROKEN_OFF = """
from changeover import Agent, Team, tool
from changeover.stream import TextDelta
from changeover.errors import ModelError
from changeover.testing import ScriptedModel, calls


@tool(approval=True)
def refund() -> str:
    return "sent back"


class BreaksOff(ScriptedModel):
    async def stream(self, request):
        if request.turn:
            yield TextDelta("I have just", request.agent, request.conversation, request.command, request.attempt)
            raise ModelError("the line is dead", retryable=False)
        async for piece in super().stream(request):
            yield piece


team = Team([Agent("desk", tools=[refund])], model=BreaksOff({"desk": [calls(("refund", {}))]}))
"""


def test_a_chat_asks_for_approval_and_can_be_edited(folder: Path):
    types = [
        (YOU, "I was charged twice\n"),
        (ASKED, "e\n"),
        ("JSON", '{"amount": "much"}\n'),
        (ASKED, "e\n"),
        ("JSON", '{"amount": 5}\n'),
        (YOU, "thank you\n"),
        (YOU, "\x04"),
    ]
    sent, code = on_a_terminal("chat", "desk.py", "--conversation", "a", at=folder, types=types, NO_COLOR="1")
    assert code == 0
    assert 'triage     Charged twice.\n\nHANDOFF    triage ──▶ billing\n           order_id    "1042"\n' in sent
    assert "billing    ┌ asks research: all about order 1042\n" in sent
    assert "billing wants refund(amount=500.0)" in sent
    assert "this decision cannot hold" in sent
    assert "5.0 EUR sent back" in sent
    assert "           Done, as you wished.\n\nyou        thank you\n\nbilling    You are welcome.\n" in sent
    assert "\x1b" not in sent


def test_after_an_approval_the_answer_is_shown_as_it_is_written(folder: Path):
    (folder / "half.py").write_text(BROKEN_OFF)
    types = [(YOU, "twice!\n"), (ASKED, "y\n"), (YOU, "\x04")]
    sent, code = on_a_terminal("chat", "half.py", at=folder, types=types, NO_COLOR="1")
    assert code == 0
    assert "           └─ sent back\n           I have just\nchangeover: 'desk' got no usable reply" in sent


def test_ctrl_c_leaves_a_conversation_that_goes_on_where_it_was(folder: Path):
    left, code = on_a_terminal(
        "chat", "desk.py", "--conversation", "c", at=folder, types=[("you", "twice\n"), (ASKED, "\x03")]
    )
    assert code == 0
    assert "To continue it:\n  changeover chat desk.py --conversation c\n" in left
    assert "  changeover resume desk.py c\n" in left
    assert "\x1b[" in left  # in colour
    types = [(ASKED, "r\n"), ("words", "I sent it myself\n"), (YOU, "\x03")]
    again, code = on_a_terminal("chat", "desk.py", "--conversation", "c", at=folder, types=types, NO_COLOR="1")
    assert code == 0
    assert "billing wants refund(amount=500.0)" in again
    assert "billing    Done, as you wished.\n" in again
    assert again.count("Charged twice") == 0  # what was shown before is not shown again


def test_a_chat_in_a_pipe_reads_lines_and_writes_plain_text(folder: Path):
    done = changeover("chat", "plain.py:make", "--agent", "echo", at=folder, stdin="hello\n\nand now?\n")
    said = "you        hello\n\necho       I am here.\n\nyou        and now?\n\necho       I am here.\n"
    assert (done.returncode, done.stdout) == (0, said)
    assert CONTROL.findall(done.stdout) == []
    assert re.search(r"changeover chat plain\.py:make --conversation \w+\n", done.stderr)


def test_an_unknown_agent_ends_a_chat_before_anything_is_recorded(folder: Path):
    done = changeover("chat", "plain.py", "--agent", "sales", at=folder, stdin="hello\n")
    assert done.returncode == 1
    assert done.stderr == "changeover: no agent is called 'sales'; this team has: broken, echo, front\n"


def test_a_chat_does_not_ask_the_user_about_tickets_for_workers(tmp_path: Path):
    chat = ["chat", "shop.py", "--conversation", "ada"]
    told = (
        "The conversation ada waits for a worker:\n"
        "  ada:3.0 for billing\n"
        "    changeover worker shop.py --agents billing\n"
        "  Press Enter to see the result, now or later.\n"
    )
    left, code = on_a_terminal(*chat, at=made(tmp_path), types=[(YOU, "hi\n"), (YOU, "\x04")], NO_COLOR="1")
    assert code == 0
    assert f"HANDOFF    triage ──▶ billing\n           message     Charged twice.\n{told}\nyou  " in left
    assert ASKED not in left
    again, code = on_a_terminal(*chat, at=tmp_path, types=[(YOU, "\n"), (YOU, "\x04")], NO_COLOR="1")
    assert (code, again.count(told)) == (0, 2)  # once it is opened, and once Enter is pressed


def test_enter_shows_what_workers_did_meanwhile(tmp_path: Path):
    shop = made(tmp_path)
    with Started("chat", "shop.py", "--conversation", "ada", at=shop) as chat:
        chat.types("hi\nand now?\n")
        wait_for(lambda: chat.text.count("ada:3.0 for billing") == 2)
        assert changeover("worker", "shop.py", "--drain", "--name", "w", at=shop).returncode == 0
        chat.types("\n")
        chat.until("billing    Once more.\n")
    assert "billing    Sent back.\n           w works on it\n\nbilling    Once more.\n" in chat.text


def test_a_chat_shows_which_worker_has_it_and_which_was_lost(tmp_path: Path):
    shop = made(tmp_path)

    async def two_workers() -> None:
        async with team_at(shop) as team:
            (first,) = await team.claim("billing", by="first", lease=0.05)
            await first.accept()
            await asyncio.sleep(0.1)
            (second,) = await team.claim("billing", by="second")
            await second.accept()
            await second.complete("It went back.")

    with Started("chat", "shop.py", "--conversation", "ada", at=shop) as chat:
        chat.types("hi\n")
        chat.until("ada:3.0 for billing")
        asyncio.run(two_workers())
        chat.types("\n")
        chat.until("billing    It went back.\n")
    lapsed = "           its worker did not renew its lease\n           second works on it\n"
    assert f"{lapsed}\nbilling    It went back.\n" in chat.text
