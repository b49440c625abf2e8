"""Where handoffs are offered: the same for a conversation in every process, and what the environment says counts."""

import subprocess
import sys
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import MisconfiguredError
from changeover.guards.switch import Switch, override_faults, place_of, switch_faults, switch_of

MANY = [f"conversation-{number}" for number in range(2_000)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_share_of_all_conversations_has_handoffs(share: float):
    on = [switch_of(share).is_on(id, "triage") for id in MANY]
    assert abs(sum(on) / len(MANY) - share) < 0.05
    assert share not in (0.0, 1.0) or sum(on) == share * len(MANY)


def test_a_growing_share_removes_handoffs_from_no_conversation():
    small, large = Switch(0.2), Switch(0.6)
    assert all(large.is_on(id, "triage") for id in MANY if small.is_on(id, "triage"))


def test_the_place_of_a_conversation_is_the_same_in_every_process():
    assert round(place_of("ada"), 6) == 0.991917
    other = [sys.executable, "-c", "from changeover.guards.switch import place_of; print(place_of('ada'))"]
    assert float(subprocess.run(other, capture_output=True, text=True, check=True).stdout) == place_of("ada")


@pytest.mark.parametrize(
    ("declared", "agent", "is_on"),
    [
        (True, "triage", True),
        (False, "triage", False),
        ({"triage": False}, "triage", False),
        ({"triage": False}, "sales", True),
        ({"triage": 1.0, "sales": 0}, "sales", False),
    ],
)
def test_agents_may_be_switched_one_by_one_and_the_others_have_handoffs(declared: Any, agent: str, is_on: bool):
    assert switch_of(declared).is_on("ada", agent) is is_on


@pytest.mark.parametrize("declared", [True, False, 0, 1, 0.2, {}, {"triage": False, "sales": 0.5}])
def test_valid_declarations_have_no_faults(declared: Any):
    assert switch_faults(declared, ["triage", "sales"]) == []


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        (1.5, "the team has handoffs_enabled=1.5; give True, False, or the share"),
        (-0.1, "the team has handoffs_enabled=-0.1; give True, False, or the share"),
        (float("nan"), "the team has handoffs_enabled=nan; give"),
        ("on", "the team has handoffs_enabled='on'; give"),
        (None, "the team has handoffs_enabled=None; give"),
        ({"nobody": True}, "handoffs_enabled names 'nobody', which is not in the team"),
        ({"triage": 2}, "handoffs_enabled of 'triage' is 2; give True, False, or the share"),
        ({"triage": None}, "handoffs_enabled of 'triage' is None; give True, False, or the share"),
    ],
)
def test_faults_of_declarations_say_what_to_give(declared: Any, fault: str):
    [found] = switch_faults(declared, ["triage"])
    assert found.startswith(fault)


def shown(**options: Any) -> bool:
    """Whether a team with these options shows its first agent a handoff."""
    roster = Team([Agent("triage"), Agent("sales")], model="offline", **options).roster
    return roster.hands_off("ada", "triage")


@pytest.mark.parametrize(
    ("said", "declared", "is_on"),
    [
        ("off", True, False),
        ("on", False, True),
        ("OFF", {"triage": True}, False),
        ("on", {"triage": False}, True),
        ("0.5", True, False),
        ("0.995", False, True),
        ("", False, False),
        ("1", False, True),
    ],
)
def test_the_environment_variable_overrides_the_team(
    said: str, declared: Any, is_on: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHANGEOVER_HANDOFFS", said)
    assert shown(handoffs_enabled=declared) is is_on


@pytest.mark.parametrize("said", ["maybe", "1.5", "-1", "nan", "50%"])
def test_an_invalid_environment_variable_is_a_fault_of_the_team(said: str, monkeypatch: pytest.MonkeyPatch):
    fault = f"CHANGEOVER_HANDOFFS={said!r} in the environment; give on, off, or the share of conversations"
    assert override_faults("CHANGEOVER_HANDOFFS", said)[0].startswith(fault)
    monkeypatch.setenv("CHANGEOVER_HANDOFFS", said)
    with pytest.raises(MisconfiguredError, match="CHANGEOVER_HANDOFFS"):
        shown()


def test_the_faults_of_a_switch_are_found_when_a_team_is_built():
    with pytest.raises(MisconfiguredError, match="handoffs_enabled names 'nobody'"):
        shown(handoffs_enabled={"nobody": False})
