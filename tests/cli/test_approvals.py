"""What people see of handoffs that are not simply accepted, and how they decide about what waits for them."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import CONTROL, YOU, Done, changeover, json_lines, on_a_terminal, one_by_one

TEAM = """
import asyncio

from changeover import Agent, Command, Function, Person, Team, Variable, delegate, handoff
from changeover.protocol import Conditional, Rejected
from changeover.testing import ScriptedModel, delegates, hands_off, says


def small_sums(package):
    return Rejected("100 EUR at most") if package.context.variables.get("amount", 0) > 100 else None


def with_permission(package):
    return Conditional(needs_permission=["large refunds"])


async def much_later(package):
    await asyncio.sleep(30)


script = {
    "tour": [
        hands_off("strict", "Look at this."),
        hands_off("slow", "Then you."),
        hands_off("billing", "Charged twice.", amount=112.0),
    ],
    "accounts": [says("Sent back.")] * 2,
    "asks": [hands_off("careful", "May it?"), says("Then not.")],
    "careful": [says("I was allowed to.")],
    "needy": [hands_off("ana", "Is it legal?"), says("Ana does not say.")],
    "asker": [delegates("ana", "Is it legal?"), says("It is.")],
    "lost": [delegates("closed", "Anybody?"), says("Nobody.")],
}
agents = [
    Agent(
        "tour",
        handoffs=[
            "strict",
            handoff("slow", timeout=0.2),
            handoff("billing", variables=[Variable("amount", "number")], alternatives=["accounts"]),
        ],
    ),
    Agent("strict", requires=[Variable("order_id")], handoffs=()),
    Agent("slow", accepts=much_later, handoffs=()),
    Agent("billing", accepts=small_sums, handoffs=()),
    Agent("accounts", handoffs=()),
    Agent("asks", handoffs=["careful"]),
    Agent("careful", accepts=with_permission, handoffs=()),
    Agent("closed", accepts_handoffs=False, handoffs=()),
    Agent("needy", handoffs=["ana"]),
    Agent("asker", handoffs=[delegate("ana")]),
    Agent("lost", handoffs=[delegate("closed")]),
    Function("rule", lambda ctx: Command(goto="closed", message="By the rule.")),
    Person("ana", description="Our lawyer"),
]
team = Team(agents, model=ScriptedModel(script))
"""
WAITING = {"permission": "asks", "escalation": "rule", "task": "needy", "own task": "asker"}
ASKED = "Enter for later: "


def run(agent: str, conversation: str) -> list[str]:
    return ["run", "answers.py", "hello", "--agent", agent, "--conversation", conversation]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("answers")
    (made / "answers.py").write_text(TEAM)
    return made


@pytest.fixture(scope="module")
def begun(place: Path) -> dict[str, Done]:
    """A run for each kind of request, and one that was declined twice and then accepted."""
    runs = {name: run(agent, agent) for name, agent in WAITING.items()} | {"tour": run("tour", "tour")}
    asked = {"listed": ["approvals", "list"], "as JSON": ["approvals", "list", "--json"]}
    return one_by_one(runs | asked, place)


@pytest.fixture(scope="module")
def ids(begun: dict[str, Done]) -> dict[str, str]:
    """The request of each conversation."""
    return {each["conversation"]: each["id"] for each in json.loads(begun["as JSON"].stdout)}


@pytest.fixture(scope="module")
def misfits(place: Path, ids: dict[str, str]) -> dict[str, Done]:
    team = ["--team", "answers.py"]
    commands = {
        "approve an escalation": ["approvals", "approve", ids["rule"], *team],
        "approve a task": ["approvals", "approve", ids["needy"], *team, "--json"],
        "answer a permission": ["approvals", "answer", ids["asks"], "yes", *team],
        "route to nobody": ["approvals", "route", ids["rule"], "nobody", *team],
    }
    return one_by_one(commands, place)


def test_on_a_terminal_a_run_shows_each_rejection_and_the_next_receiver(place: Path):
    sent, code = on_a_terminal(*run("tour", "seen"), at=place, NO_COLOR="1")
    assert (code, CONTROL.findall(sent)) == (0, [])
    assert [line for line in sent.splitlines() if line] == [
        "HANDOFF    tour ──▶ strict",
        "           message     Look at this.",
        "CONDITION  strict accepts only if it knows order_id",
        "           tour is told, and continues",
        "tour       Then you.",
        "HANDOFF    tour ──▶ slow  try 2",
        "TIMEOUT    time is up for slow: it did not answer in time",
        "tour       Charged twice.",
        "HANDOFF    tour ──▶ billing  try 2",
        "           amount      112.0",
        "REJECTED   billing rejects it: 100 EUR at most",
        "HANDOFF    tour ──▶ accounts  try 3",
        "accounts   Sent back.",
    ]
    coloured, _ = on_a_terminal(*run("tour", "coloured"), at=place)
    assert "\x1b[37;41mREJECTED\x1b[0m" in coloured


def test_a_sender_learns_that_no_agent_took_its_delegate(place: Path):
    sent, code = on_a_terminal(*run("lost", "lost"), at=place, NO_COLOR="1")
    assert code == 0
    assert "┌ asks closed: Anybody?\n           │ closed rejects it: it takes no handoffs\n" in sent
    assert "           lost is told, and continues\n           Nobody.\n" in sent


@pytest.mark.parametrize(
    ("name", "words", "verbs"),
    [
        ("permission", "careful needs permission for large refunds: May it?", ["approve", "reject"]),
        (
            "escalation",
            "no agent takes this from rule: declined by closed (it takes no handoffs): By the rule.",
            ["answer", "route", "reject"],
        ),
        ("task", "needy asks ana: Is it legal?", ["answer", "route", "reject"]),
        ("own task", "asker asks ana: Is it legal?", ["answer", "route", "reject"]),
    ],
)
def test_a_run_that_waits_says_what_for_and_what_to_type(
    begun: dict[str, Done], name: str, words: str, verbs: list[str]
):
    done = begun[name]
    assert (done.returncode, done.stdout) == (3, "")
    first, asked, *commands = done.stderr.splitlines()
    assert (first, asked) == (f"The conversation {WAITING[name]} waits for a person:", f"  {words}")
    typed = re.findall(
        r"^    changeover approvals (\w+) \S+:\S+(?: --note)?(?: [A-Z]+)? --team answers\.py$",
        "\n".join(commands),
        re.M,
    )
    assert typed == verbs


def test_approvals_are_listed_with_their_kind_and_for_whom(begun: dict[str, Done]):
    listed = begun["listed"].stdout
    assert re.search(
        r"^asks:\S+ +pending +asks +permission +\S+ \S+ +careful needs permission for large ", listed, re.M
    )
    assert re.search(r"^rule:\S+ +pending +rule +escalation +\S+ \S+ +declined by closed \(it takes no", listed, re.M)
    assert re.search(r"^needy:\S+ +pending +needy +task for ana +\S+ \S+ +Is it legal\?$", listed, re.M)
    as_json = {each["conversation"]: each for each in json.loads(begun["as JSON"].stdout)}
    assert {id: each["kind"] for id, each in as_json.items()} == {
        "asks": "permission",
        "rule": "escalation",
        "needy": "task",
        "asker": "task",
    }
    assert as_json["needy"]["receiver"] == "ana"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "approve an escalation",
            "approve does not fit an escalation; use answer ID TEXT, route ID RECEIVER or reject ID --note",
        ),
        ("approve a task", "approve does not fit a task; use answer ID TEXT, route ID RECEIVER or reject"),
        ("answer a permission", "answer does not fit a permission; use approve ID or reject ID --note TEXT"),
        ("route to nobody", "no agent is called 'nobody'; this team has: tour, "),
    ],
)
def test_a_decision_that_does_not_fit_is_refused_with_those_that_fit(misfits: dict[str, Done], name: str, told: str):
    done = misfits[name]
    assert done.returncode == 1
    assert told in done.stderr
    assert (done.stderr.startswith("changeover: "), len(done.stderr.splitlines())) == (True, 1)
    if name == "approve a task":
        assert json_lines(done)[-1]["error"]["type"] == "ApprovalError"


def test_a_call_that_waits_for_approval_can_be_answered_and_not_routed(folder: Path, waiting: Done):
    assert waiting.returncode == 3
    (asked,) = json.loads(changeover("approvals", "list", "--json", at=folder).stdout)
    done = one_by_one(
        {
            "routed": ["approvals", "route", asked["id"], "triage", "--team", "desk.py"],
            "answered": ["approvals", "answer", asked["id"], "I sent it myself", "--team", "desk.py"],
            "task": ["tasks", "show", "ada#5"],
        },
        folder,
    )
    assert done["routed"].returncode == 1
    told = "route does not fit an approval; use approve ID, edit ID JSON, answer ID TEXT or reject ID --note TEXT"
    assert done["routed"].stderr == f"changeover: {told}\n"
    assert (done["answered"].returncode, done["answered"].stdout) == (0, "Done, as you wished.\n")
    assert re.search(r"tool_result +billing +I sent it myself$", done["task"].stdout, re.M)


def test_each_kind_is_decided_by_the_command_that_fits_it(place: Path, ids: dict[str, str], misfits: dict[str, Done]):
    team = ["--team", "answers.py", "--by", "lea"]
    done = one_by_one(
        {
            "permitted": ["approvals", "approve", ids["asks"], *team],
            "picked": ["approvals", "route", ids["rule"], "accounts", *team],
            "answered": ["approvals", "answer", ids["needy"], "Yes, it is.", *team, "--json"],
            "brought back": ["approvals", "answer", ids["asker"], "Yes, it is.", *team],
            "listed": ["approvals", "list", "--status", "all"],
            "tasks": ["tasks", "list", "--json", "--agent", "ana"],
        },
        place,
    )
    assert {name: each.returncode for name, each in done.items() if each.returncode} == {}
    assert done["permitted"].stdout == "I was allowed to.\n"
    assert done["picked"].stdout == "Sent back.\n"
    answered = json_lines(done["answered"])[-1]
    assert (answered["status"], answered["final_agent"], answered["output"]) == ("completed", "ana", "Yes, it is.")
    assert done["brought back"].stdout == "It is.\n"
    assert re.search(rf"^{ids['rule']} +edited +rule +escalation ", done["listed"].stdout, re.M)
    assert [(each["conversation"], each["status"]) for each in json.loads(done["tasks"].stdout)] == [
        ("needy", "completed")
    ]


def test_a_person_may_reject_a_task_or_hand_it_on(place: Path):
    asked = one_by_one(
        {"no": run("needy", "no"), "on": run("needy", "on"), "all": ["approvals", "list", "--json"]}, place
    )
    found = {each["conversation"]: each["id"] for each in json.loads(asked["all"].stdout)}
    team = ["--team", "answers.py"]
    done = one_by_one(
        {
            "rejected": ["approvals", "reject", found["no"], "--note", "ask the court", *team],
            "handed on": ["approvals", "route", found["on"], "accounts", *team],
            "listed": ["handoffs", "list", "--conversation", "on"],
            "refused": ["handoffs", "show", "no:3.0"],
        },
        place,
    )
    assert done["rejected"].stdout == "Ana does not say.\n"
    assert done["handed on"].stdout == "Sent back.\n"
    assert re.search(
        r"^on:3\.0\+1 +COMPLETE +transfer +needy +accounts +2 +Is it legal\? \(after on:3\.0\)$",
        done["listed"].stdout,
        re.M,
    )
    assert re.search(r"^on:3\.0 +REJECTED +transfer +needy +ana .*handed on to accounts", done["listed"].stdout, re.M)
    assert re.search(r"^reason +ask the court$", done["refused"].stdout, re.M)


def test_handoffs_are_shown_with_their_tries_their_reasons_and_their_times(place: Path, begun: dict[str, Done]):
    assert begun["tour"].returncode == 0
    done = one_by_one(
        {
            "listed": ["handoffs", "list", "--conversation", "tour"],
            "late": ["handoffs", "list", "--state", "timeout", "--conversation", "tour", "--json"],
            "shown": ["handoffs", "show", "tour:9.0"],
            "drawn": ["graph", "tour"],
        },
        place,
    )
    lines = [re.split(r" {2,}", line) for line in done["listed"].stdout.splitlines()]
    assert lines[0] == ["handoff", "state", "mode", "from", "to", "try", "message"]
    assert [(line[1], line[4]) for line in lines[1:]] == [
        ("COMPLETE", "accounts"),
        ("REJECTED", "billing"),
        ("TIMEOUT", "slow"),
        ("RETURNED", "strict"),
    ]
    assert lines[1][5:] == ["3", f"Charged twice. (after {lines[2][0]})"]
    assert lines[2][5:] == ["2", "Charged twice. (after tour:3.0) (100 EUR at most)"]
    (late,) = json.loads(done["late"].stdout)
    assert (late["attempt"], late["retry_of"], late["reason"]) == (2, "tour:3.0", "it did not answer in time")
    offered, deadline, ended = (late[name] for name in ("offered_at", "deadline", "ended_at"))
    assert offered < deadline <= ended
    assert "  ├╌▶ tried strict: Look at this. [RETURNED: it has to know order_id]\n" in done["drawn"].stdout
    assert (
        "  └─▶ accounts: Charged twice. (amount=112.0) (try 3, after billing) [COMPLETE]\naccounts\n"
        in done["drawn"].stdout
    )


def test_a_chat_offers_what_fits_an_escalation(place: Path):
    types = [
        (YOU, "hello\n"),
        (f"h(and over), r(espond), n(o), {ASKED}", "y\n"),
        (f"h(and over), r(espond), n(o), {ASKED}", "h\n"),
        ("to whom (tour, strict, slow, ", "accounts\n"),
        (YOU, "\x04"),
    ]
    sent, code = on_a_terminal("chat", "answers.py", "--agent", "rule", at=place, types=types, NO_COLOR="1")
    assert code == 0
    assert "ESCALATION no agent takes this from rule: declined by closed (it takes no\n" in sent
    assert "HANDOFF    rule ──▶ accounts  try 2\n\naccounts   Sent back.\n" in sent
    assert "cannot hold" not in sent  # what was not offered is not tried


def test_a_chat_lets_a_person_who_is_asked_answer(place: Path):
    types = [
        (YOU, "hello\n"),
        (f"r(espond), h(and on), n(o), {ASKED}", "r\n"),
        ("words", "Yes.\n"),
        (YOU, "\x04"),
    ]
    sent, code = on_a_terminal("chat", "answers.py", "--agent", "needy", at=place, types=types, NO_COLOR="1")
    assert code == 0
    assert "TASK       needy asks ana: Is it legal?\n" in sent
    assert "ana        Yes.\n" in sent


def test_a_permission_is_given_or_not(place: Path):
    types = [(YOU, "hello\n"), (f"  y(es), n(o), {ASKED}", "n\n"), ("note", "not today\n"), (YOU, "\x04")]
    sent, code = on_a_terminal("chat", "answers.py", "--agent", "asks", at=place, types=types, NO_COLOR="1")
    assert code == 0
    assert "CONDITION  careful accepts only with permission for large refunds\n" in sent
    assert "REJECTED   careful rejects it: not today\n" in sent
    assert "asks       Then not.\n" in sent


def test_resuming_shows_what_happens_from_then_on(place: Path):
    asked = changeover(*run("rule", "later"), "--json", at=place)
    (pending,) = json_lines(asked)[-1]["pending"]
    command = ["approvals", "route", pending["id"], "needy", "--team", "answers.py"]
    sent, code = on_a_terminal(*command, at=place, NO_COLOR="1")
    assert code == 3
    assert "HANDOFF    rule ──▶ needy  try 2\n\nHANDOFF    needy ──▶ ana\n" in sent
    assert "TASK       needy asks ana: Is it legal?\n\nThe conversation later waits for a person:\n" in sent
    again, code = on_a_terminal("resume", "answers.py", "later", at=place, NO_COLOR="1")
    assert code == 3
    assert again.startswith("The conversation later waits for a person:\n  needy asks ana: Is it legal?\n")
