"""Skill: named instructions that an agent loads when it needs them, in the convention of Agent Skills."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from changeover.copies import FrozenDict

LOAD_SKILL, READ_SKILL_FILE = "load_skill", "read_skill_file"
"""The tools of an agent that has skills."""
MANUAL = "SKILL.md"
"""The file of a folder that holds name, description and instructions."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_NAME, LONGEST_DESCRIPTION = 64, 1_024
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?P<matter>.*?)^---[ \t]*\r?$\n?(?P<body>.*)\Z", re.M | re.S)


@dataclass(frozen=True)
class Skill:
    """Instructions that an agent can load on demand. Its model sees the name and the description of each skill.

    `Agent(skills=["skills/refunds"])` reads one from a folder with a `SKILL.md`.
    """

    name: str
    """Small letters, digits and single hyphens, at most 64."""
    _: KW_ONLY
    description: str
    """What the skill does and when to use it, at most 1,024 characters."""
    instructions: str
    """What the model reads when it loads the skill."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Further texts by their paths, which the model can read one by one."""
    folder: str = ""
    """The folder of a skill that was read from one; its files are there."""

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's dict must not reach the declaration.
        if isinstance(self.files, dict):
            object.__setattr__(self, "files", FrozenDict(self.files))

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name) or len(self.name) > LONGEST_NAME:
            yield f"has the name {self.name!r}; use small letters, digits and single hyphens, at most {LONGEST_NAME}"
        if not isinstance(self.description, str) or not 0 < len(self.description.strip()) <= LONGEST_DESCRIPTION:
            yield f"needs a description of at most {LONGEST_DESCRIPTION} characters: what it does, and when to use it"
        if not isinstance(self.instructions, str) or not self.instructions.strip():
            yield "has no instructions"
        named = self.files.items() if isinstance(self.files, Mapping) else [(None, None)]
        if not all(isinstance(path, str) and isinstance(text, str) for path, text in named):
            yield "has files that are not texts by their paths"


def parse_manual(text: str, folder: str) -> Skill | str:
    """The skill that a SKILL.md describes, or why it cannot be read."""
    import yaml

    if (found := FRONT_MATTER.match(text.removeprefix("\ufeff"))) is None:
        return f"its {MANUAL} has no front matter; begin it with --- and the lines name: and description:"
    try:
        matter: Any = yaml.safe_load(found["matter"])
    except yaml.YAMLError as error:
        return f"the front matter of its {MANUAL} is not YAML: {' '.join(str(error).split())}"
    if not isinstance(matter, dict):
        return f"the front matter of its {MANUAL} is not a mapping of name and description"
    values = {key: matter.get(key) or "" for key in ("name", "description")}
    return Skill(values["name"], description=values["description"], instructions=found["body"].strip(), folder=folder)
