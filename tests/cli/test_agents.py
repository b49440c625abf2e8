"""`agents`: people see who there is, and say what each is for and who gets handoffs."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import PLAIN, Done, changeover, one_by_one

YAML = """
model: offline
agents:
  - id: desk
    description: Greets everybody.
    capabilities: [greeting]
    examples: [Hello, "Is anybody there?"]
    specialization: manners
    max_concurrency: 4
  - id: shy
    accepts_handoffs: false
"""


BILLING = (
    *("agents", "describe", "billing", "--description", "Sends money back.", "--capability", "refunds"),
    *("--capability", "invoices", "--specialization", "money", "--example", "I was charged twice"),
    *("--max-concurrency", "2"),
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a team in Python and another in YAML."""
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "shop.yaml").write_text(YAML)
    return tmp_path


def by_id(done: Done) -> dict[str, dict[str, object]]:
    assert (done.returncode, done.stderr) == (0, "")
    return {each["id"]: each for each in json.loads(done.stdout)}


def test_a_profile_is_stored_and_shown(shop: Path):
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "nothing": ("agents", "list"),
            "describe": BILLING,
            "json": ("agents", "show", "billing", "--json"),
            "show": ("agents", "show", "billing"),
            "list": ("agents", "list"),
        },
        at=shop,
    )
    assert (done["nothing"].returncode, done["nothing"].stdout) == (0, "")
    assert (
        done["nothing"].stderr
        == "the store declares no agents; to list those of a team: changeover agents --team TEAM\n"
    )
    assert done["describe"].stdout == "billing is described; see: changeover agents show billing\n"
    shown = json.loads(done["json"].stdout)
    assert re.fullmatch(r"[\d-]+T[\d:.]+\+00:00", shown.pop("updated_at"))
    assert shown == {
        "id": "billing",
        "available": True,
        "handoffs": "yes",
        "source": "store",
        "description": "Sends money back.",
        "specialization": "money",
        "capabilities": ["refunds", "invoices"],
        "examples": ["I was charged twice"],
        "max_concurrency": 2,
        "declaration": None,
    }
    assert "capabilities     refunds; invoices\n" in done["show"].stdout
    heads = " +".join(("agent", "handoffs", "source", "capabilities", "description"))
    row = " +".join(("billing", "yes", "store", "refunds, invoices", "Sends money back."))
    assert re.fullmatch(f"{heads}\n{row}\n", done["list"].stdout)


def test_agents_of_code_and_store_can_be_disabled_removed_and_enabled(shop: Path):
    team = "plain.py:make"
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "disable": ("agents", "disable", "echo"),
            "remove": ("agents", "remove", "broken"),
            "describe": ("agents", "describe", "stranger"),
            "list": ("agents", "list", "--team", team, "--json"),
            "in vain": ("run", team, "Hello"),
            "enable": ("agents", "enable", "echo"),
            "again": ("agents", "list", "--json"),
            "run": ("run", team, "Hello"),
            "known": ("agents", "disable", "front"),
        },
        at=shop,
    )
    assert done["known"].stderr == ""
    assert done["disable"].stdout == "echo gets no handoffs; to change that: changeover agents enable echo\n"
    assert done["disable"].stderr == "no agent called 'echo' has worked in this store yet; check the spelling\n"
    assert done["remove"].stdout == "broken is removed; to undo that: changeover agents enable broken\n"
    assert {id: (each["handoffs"], each["source"]) for id, each in by_id(done["list"]).items()} == {
        "broken": ("removed", "code"),
        "echo": ("disabled", "code"),
        "front": ("yes", "code"),
        "stranger": ("not in the team", "store"),
    }
    assert done["in vain"].returncode == 1
    assert "'front' tried to hand off to 'echo', who does not exist" in done["in vain"].stderr
    assert done["enable"].stdout == "echo gets handoffs\n"
    assert by_id(done["again"])["echo"]["available"] is True
    assert (done["run"].returncode, "I am here." in done["run"].stdout) == (0, True)


def test_profiles_come_from_yaml_and_reading_them_creates_no_store(shop: Path):
    found = by_id(changeover("agents", "--team", "shop.yaml", "--json", at=shop))
    assert found["desk"] == {
        "id": "desk",
        "available": True,
        "handoffs": "yes",
        "source": "code",
        "description": "Greets everybody.",
        "specialization": "manners",
        "capabilities": ["greeting"],
        "examples": ["Hello", "Is anybody there?"],
        "max_concurrency": 4,
        "updated_at": None,
    }
    assert (found["shy"]["available"], found["shy"]["handoffs"]) == (False, "it takes none")
    assert not (shop / "changeover.db").exists()


def test_an_impossible_profile_is_refused_with_a_reason(shop: Path):
    done = one_by_one(
        {
            "id": ("agents", "describe", "no id!"),
            "nothing at once": ("agents", "describe", "x", "--max-concurrency", "0"),
            "unknown": ("agents", "show", "nobody", "--team", "shop.yaml"),
            "no store": ("agents", "disable", "desk"),
        },
        at=shop,
    )
    assert [each.returncode for each in done.values()] == [1, 2, 1, 1]
    assert done["id"].stderr.startswith("changeover: 'no id!' is not a valid id; use letters, digits,")
    assert done["unknown"].stderr == "changeover: no agent is called 'nobody'; there are: desk, shy\n"
    assert done["no store"].stderr.startswith("changeover: which store?")
