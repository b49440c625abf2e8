"""Skills in folders: what can be read as one, what cannot, and files that lie outside."""

from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import MisconfiguredError
from changeover.messages import File
from changeover.models.files import attached
from changeover.testing import ScriptedModel
from changeover.toolkits.connections import Connections
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools import Skill
from tests.toolkits.function_call import CONTEXT
from tests.toolkits.http_server import PNG

MANUAL = "---\nname: refunds\ndescription: How money is sent back.\n---\nRefund at most 50 euros.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "refunds"
    place.mkdir()
    (place / "SKILL.md").write_text(MANUAL)
    (place / "form.txt").write_text("the form")
    (place / "logo.png").write_bytes(PNG)
    (tmp_path / "secret.txt").write_text("not for models")
    (tmp_path / "refunds-more").mkdir()
    (tmp_path / "refunds-more" / "x.txt").write_text("not for models")
    (place / "link.txt").symlink_to(tmp_path / "secret.txt")
    (place / "up").symlink_to(tmp_path)
    (place / "within.txt").symlink_to(place / "form.txt")
    return place


async def read(folder: Path, path: str) -> Any:
    toolkit = AgentToolkit([], skills=[folder], connections=Connections(attached))
    assert toolkit.faults == []
    return await toolkit.call("read_skill_file", {"skill": "refunds", "path": path}, CONTEXT)


OUTSIDE = [
    *("../secret.txt", "link.txt", "up/secret.txt", "../refunds-more/x.txt", "/etc/passwd", "..", ".", ""),
    *("form.txt/../../secret.txt", "up/../secret.txt", "nothing.txt", "form.txt\0", "~/.bashrc", "..\\secret.txt"),
]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leaves_the_folder(folder: Path, path: str):
    outcome = await read(folder, path)
    assert not outcome.ok
    assert "not for models" not in outcome.text
    assert outcome.text.endswith("its files: form.txt, logo.png")


@pytest.mark.parametrize("path", ["form.txt", "./form.txt", "within.txt"])
async def test_files_inside_are_read(folder: Path, path: str):
    assert (await read(folder, path)).text == "the form"


async def test_an_image_of_a_skill_is_given_as_a_file(folder: Path):
    outcome = await read(folder, "logo.png")
    assert outcome.files == (File(PNG, "image/png", "logo.png"),)


async def test_the_instructions_are_those_of_the_moment(folder: Path):
    toolkit = AgentToolkit([], skills=[folder])
    assert (await toolkit.call("load_skill", {"skill": "refunds"}, CONTEXT)).text.startswith("Refund at most 50 euros.")
    (folder / "SKILL.md").write_text(MANUAL.replace("50", "70"))
    assert (await toolkit.call("load_skill", {"skill": "refunds"}, CONTEXT)).text.startswith("Refund at most 70 euros.")
    (folder / "SKILL.md").unlink()
    gone = await toolkit.call("load_skill", {"skill": "refunds"}, CONTEXT)
    assert (gone.ok, gone.skill) == (False, "")
    assert "the skill refunds cannot be loaded: its SKILL.md cannot be read" in gone.text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# Refunds", "skill '{0}': its SKILL.md has no front matter"),
        ("---\nname: [\n---\n", "skill '{0}': the front matter of its SKILL.md is not YAML"),
        ("---\n- a\n---\n", "skill '{0}': the front matter of its SKILL.md is not a mapping"),
        (MANUAL.replace("refunds", "Refunds!"), "skill 'Refunds!' has the name 'Refunds!'; use small letters"),
        (MANUAL.replace("refunds", "returns"), "skill 'returns' is in a folder called 'refunds'"),
        (MANUAL.replace("How money is sent back.", "''"), "skill 'refunds' needs a description"),
        (MANUAL.replace("How money", "x" * 1_100), "skill 'refunds' needs a description of at most 1024 characters"),
        (MANUAL.replace("Refund at most 50 euros.", ""), "skill 'refunds' has no instructions"),
    ],
)
def test_a_folder_that_is_no_skill_is_a_fault(folder: Path, text: str, fault: str):
    (folder / "SKILL.md").write_text(text)
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", skills=[folder])], model=ScriptedModel({}))
    assert any(each.startswith(f"agent 'solo': {fault.format(folder)}") for each in caught.value.faults)


@pytest.mark.parametrize(
    ("skills", "fault"),
    [
        ("skills/refunds", "agent 'solo': has skills='skills/refunds'; give a list of folders and Skill(…)s"),
        ([7], "agent 'solo': skill '7': give the path of a folder, or Skill(…)"),
        (
            [Skill("a", description="b", instructions="c")] * 2,
            "agent 'solo': two skills are called 'a'; leave one of them out",
        ),
    ],
)
def test_skills_that_are_none_are_faults(skills: Any, fault: str):
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", skills=skills)], model=ScriptedModel({}))
    assert fault in caught.value.faults


def test_a_tool_cannot_have_the_name_of_one_that_loads_skills():
    def load_skill() -> str:
        return ""

    skill = Skill("a", description="b", instructions="c")
    with pytest.raises(MisconfiguredError, match="two tools called 'load_skill'"):
        Team([Agent("solo", tools=[load_skill], skills=[skill])], model=ScriptedModel({}))
