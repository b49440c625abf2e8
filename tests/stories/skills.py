"""Stories of skills: instructions that an agent loads when it needs them."""

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from changeover import Agent
from changeover.relay.events import CallRefused, SkillLoaded, ToolFinished
from changeover.testing import ScriptedModel, calls, hands_off, says
from changeover.tools import Skill
from tests.stories.stage import Stage, events, story

GREETING = Skill("greeting", description="How to greet.", instructions="Say hello.", files={"tone.md": "Be kind."})
MANUAL = """---
name: refunds
description: How money is sent back.
license: none
---
# Refunds

Refund at most 50 euros.
"""


@cache
def folder() -> Path:
    """A skill in a folder of its own."""
    home = TemporaryDirectory(prefix="changeover-skills-")
    atexit.register(home.cleanup)
    place = Path(home.name, "refunds")
    (place / "forms").mkdir(parents=True)
    (place / "SKILL.md").write_text(MANUAL)
    (place / "forms" / "letter.txt").write_text("Dear customer")
    return place


@story
async def a_skill_is_loaded_and_its_instructions_are_read(stage: Stage) -> None:
    script = [calls(("load_skill", {"skill": "refunds"})), says("Done.")]
    team = stage.team([Agent("solo", skills=[str(folder()), GREETING])], ScriptedModel({"solo": script}))
    assert (await stage.say(team, "money back")).output == "Done."
    [loaded] = await events(team, SkillLoaded)
    assert loaded.skill == "refunds"
    assert loaded.text == (
        "# Refunds\n\nRefund at most 50 euros.\n\nFiles of this skill, for read_skill_file:\nforms/letter.txt"
    )
    for request in stage.requests("solo"):
        assert [tool.name for tool in request.tools] == ["load_skill", "read_skill_file"]
        assert request.tools[0].description.endswith(
            "The skills:\n- refunds: How money is sent back.\n- greeting: How to greet."
        )
        assert "Refund at most" not in request.instructions


@story
async def files_of_a_skill_are_read_and_a_receiver_has_skills_of_its_own(stage: Stage) -> None:
    reads = [
        calls(
            ("read_skill_file", {"skill": "refunds", "path": "forms/letter.txt"}),
            ("read_skill_file", {"skill": "greeting", "path": "tone.md"}),
            ("read_skill_file", {"skill": "refunds", "path": "../../etc/passwd"}),
        ),
        hands_off("other", "go on"),
    ]
    loads = [calls(("load_skill", {"skill": "refunds"})), says("Done.")]
    team = stage.team(
        [Agent("solo", skills=[folder(), GREETING]), Agent("other", skills=[GREETING])],
        ScriptedModel({"solo": reads, "other": loads}),
    )
    assert (await stage.say(team, "money back")).output == "Done."
    # In call order: files are read in parallel.
    first, second, third = sorted(await events(team, ToolFinished), key=lambda done: done.call)
    assert (first.text, second.text) == ("Dear customer", "Be kind.")
    assert third.text == (
        "read_skill_file failed: the skill refunds has no file '../../etc/passwd'; its files: forms/letter.txt"
    )
    [refused] = await events(team, CallRefused)
    assert "there is none called 'refunds'; there are: greeting" in refused.reason
