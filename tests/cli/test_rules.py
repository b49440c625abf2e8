"""Rules, roles and agents that work alone, on the command line."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import Done, changeover, json_lines, on_a_terminal, one_by_one

BANK = '''
from changeover import Agent, Approval, Team, tool
from changeover.guards import Rule
from changeover.protocol import Rejected
from changeover.testing import ScriptedModel, calls, says


@tool(approval=Approval(roles=["manager", "owner"]))
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def play(agent, messages, tools):
    last = messages[-1]
    if agent == "teller" and type(last).__name__ == "User":
        return calls(("pay", {"amount": 9}))
    return says(f"{agent} has {', '.join(tool.name for tool in tools) or 'nothing'} ({last.text})")


rules = [
    Rule("vip", if_=lambda ctx: ctx.context.get("tier") == "vip", goto="senior"),
    Rule("odd", if_=lambda ctx: bool(ctx.context["tier"] == "odd"), goto="senior"),
    Rule("shy", if_=lambda ctx: ctx.input == "shy", goto="shy"),
]
shy = Agent("shy", accepts=lambda package: Rejected("not I", "teller"))
agents = [Agent("desk"), Agent("senior"), Agent("teller", tools=[pay], handoffs=()), shy]


class Closed:
    def check(self, offer, ledger, facts):
        from changeover.guards import Allow, Deny

        return Deny("closed") if offer.receiver == "teller" else Allow()


team = Team(agents, model=ScriptedModel(play), rules=rules, guards=[Closed()])
'''

YAML = """
agents:
  - id: desk
    handoffs: [{to: senior, approval: {roles: [manager], expires: 60}}]
  - id: senior
model: offline
handoffs_enabled: {desk: 0.25, senior: false}
"""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bank")
    (made / "bank.py").write_text(BANK)
    (made / "bank.yaml").write_text(YAML)
    return made


@pytest.fixture(scope="module")
def said(bank: Path) -> dict[str, Done]:
    commands = {
        "plain": ["run", "bank.py", "hi"],
        "alone": ["run", "bank.py", "hi", "--no-handoffs", "--context", "tier=vip"],
        "led": ["run", "bank.py", "hi", "--context", "tier=vip", "--json", "--conversation", "led"],
        "paying": ["run", "bank.py", "hi", "--agent", "teller", "--conversation", "pays"],
        "listed": ["approvals", "list"],
        "as JSON": ["approvals", "list", "--json"],
        "timeline": ["tasks", "show", "led#2"],
        "yaml": ["run", "bank.yaml", "hi"],
    }
    return one_by_one(commands, bank)


def test_without_handoffs_an_agent_has_none_and_no_rule_leads_elsewhere(said: dict[str, Done]):
    assert said["plain"].stdout == "desk has handoff (hi)\n"
    assert (said["alone"].returncode, said["alone"].stdout) == (0, "desk has nothing (hi)\n")


def test_where_a_rule_leads_is_in_the_result_and_in_the_task(said: dict[str, Done]):
    result = json_lines(said["led"])[-1]
    assert (result["final_agent"], result["fell_back"]) == ("senior", False)
    assert re.search(r"status_change +desk +by the rule 'vip', desk hands over to senior", said["timeline"].stdout)


def test_who_has_to_decide_is_listed_and_in_the_command_to_type(said: dict[str, Done]):
    assert "teller wants pay(amount=9) (for manager or owner to decide)" in said["paying"].stderr
    assert re.search(r"approvals approve pays:\S+ --team bank\.py --role manager\n", said["paying"].stderr)
    assert "manager or owner" in said["listed"].stdout
    assert json.loads(said["as JSON"].stdout)[0]["roles"] == ["manager", "owner"]


def test_only_a_person_with_the_role_can_decide(said: dict[str, Done], bank: Path):
    [asked] = json.loads(said["as JSON"].stdout)
    decide = ["approvals", "approve", asked["id"], "--team", "bank.py", "--by", "ann"]
    done = one_by_one(
        {
            "nobody": decide,
            "clerk": [*decide, "--role", "clerk"],
            "owner": [*decide, "--role", "clerk", "--role", "owner"],
        },
        bank,
    )
    why = "it takes one of the roles manager, owner, and ann has"
    assert (done["nobody"].returncode, done["clerk"].returncode) == (1, 1)
    assert done["nobody"].stderr == f"changeover: this decision cannot hold: {why} no role\n"
    assert done["clerk"].stderr == f"changeover: this decision cannot hold: {why} only clerk\n"
    assert (done["owner"].returncode, done["owner"].stdout) == (0, "teller has pay (9 paid)\n")


def test_in_a_chat_the_user_has_the_roles_that_were_given(bank: Path):
    talk = ["chat", "bank.py", "--agent", "teller"]
    refused = changeover(*talk, at=bank, stdin="hi\ny\n\n")
    assert "it takes one of the roles manager, owner" in " ".join(refused.stdout.split())
    paid = changeover(*talk, "--role", "owner", at=bank, stdin="hi\ny\n")
    assert "teller has pay (9 paid)" in paid.stdout


def test_on_a_terminal_one_sees_what_rules_and_guards_do(bank: Path):
    sent, code = on_a_terminal("run", "bank.py", "shy", at=bank, NO_COLOR="1")
    assert code == 0
    assert "the rule 'odd' could not be judged: KeyError: 'tier'" in sent
    assert "by the rule 'shy', desk hands over to shy" in sent
    assert "teller is not asked: closed" in sent


@pytest.mark.parametrize(
    ("setting", "flags", "shown"),
    [("off", [], "nothing"), ("on", [], "handoff"), ("on", ["--no-handoffs"], "nothing")],
)
def test_the_environment_overrides_the_team_and_the_command_line_both(
    bank: Path, setting: str, flags: list[str], shown: str
):
    done = changeover("run", "bank.py", "hi", *flags, at=bank, CHANGEOVER_HANDOFFS=setting)
    assert done.stdout == f"desk has {shown} (hi)\n"


def test_a_wrong_value_in_the_environment_is_an_error_of_one_line(bank: Path):
    done = changeover("run", "bank.py", "hi", at=bank, CHANGEOVER_HANDOFFS="sometimes")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "CHANGEOVER_HANDOFFS='sometimes' in the environment; give on, off, or the share" in done.stderr


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("handoffs_enabled: 2", "line 7, column 19: expected a share between 0 and 1, found 2"),
        ("handoffs_enabled: {nobody: true}", "line 7, column 20: "),
        ("handoffs_enabled: sometimes", "line 7, column 19: expected a number between 0 and 1, true or false"),
    ],
)
def test_a_wrong_value_for_handoffs_in_yaml_is_found_with_its_line(bank: Path, given: str, fault: str):
    text = YAML.replace("handoffs_enabled: {desk: 0.25, senior: false}", given)
    (bank / "wrong.yaml").write_text(text)
    done = changeover("run", "wrong.yaml", "hi", at=bank)
    assert done.returncode == 1
    assert fault in done.stderr


def test_a_file_may_say_where_handoffs_are_offered_and_who_approves_them(bank: Path, said: dict[str, Done]):
    from changeover.cli.teams import load_team

    assert said["yaml"].returncode in (0, 3), said["yaml"].stderr
    roster = load_team("bank.yaml", bank).roster
    assert (roster.hands_off("ada", "desk"), roster.hands_off("ada", "senior")) == (False, False)
    move = roster.move_of("desk", "handoff_to_senior")
    assert move is not None
    assert move.approval is not None
    assert move.approval.roles == ("manager",)
