"""Skills of an agent: read from their folders, and offered to its model by `load_skill` and `read_skill_file`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from changeover.agent.moves import UseTool, misfit_words
from changeover.errors import MisconfiguredError
from changeover.messages import File
from changeover.relay.perform.callbacks import in_thread
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.result_text import CallFailed, cut
from changeover.tools.run_context import RunContext
from changeover.tools.skill import LOAD_SKILL, MANUAL, READ_SKILL_FILE, Skill, parse_manual
from changeover.tools.tool import CallOptions, ToolDefinition
from changeover.tools.variable import Check, Variable, compile_variables

MOST_FILES = 200
"""How many files of a skill are listed."""
LARGEST = 5_000_000
"""Bytes of the largest file that is read."""


def read_skills(declared: object) -> tuple[dict[str, Skill], list[str]]:
    """The declared skills by name, and their faults."""
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        return {}, [f"has skills={declared!r}; give a list of folders and Skill(…)s"]
    found: dict[str, Skill] = {}
    faults: list[str] = []
    for each in declared:
        skill = each if isinstance(each, Skill) else _read(each)
        if isinstance(skill, str):
            faults.append(f"skill {str(each)!r}: {skill}")
            continue
        faults += [f"skill {skill.name!r} {fault}" for fault in _faults(skill)]
        if skill.name in found:
            faults.append(f"two skills are called {skill.name!r}; leave one of them out")
        found[skill.name] = skill
    return found, faults


def _faults(skill: Skill) -> Iterator[str]:
    yield from skill.faults()
    if skill.folder and Path(skill.folder).name != skill.name:
        yield f"is in a folder called {Path(skill.folder).name!r}; the folder has to have the name of the skill"


def _read(folder: object) -> Skill | str:
    """The skill of a folder, or why there is none."""
    if not isinstance(folder, str | Path):
        return "give the path of a folder, or Skill(…)"
    path = Path(folder).absolute()
    try:
        text = (path / MANUAL).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"its {MANUAL} cannot be read: {getattr(error, 'strerror', None) or error}"
    return parse_manual(text, str(path))


def packed_skill(declared: str | Path | Skill) -> Skill:
    """The skill with the texts of its folder in it, for a document; raises MisconfiguredError."""
    found = declared if isinstance(declared, Skill) else _read(declared)
    if isinstance(found, str):
        raise MisconfiguredError(f"skill {str(declared)!r}: {found}")
    if faults := list(_faults(found)):
        raise MisconfiguredError(*(f"skill {found.name!r} {fault}" for fault in faults))
    try:
        files = {path: found.files.get(path) or _contents(found, path).decode() for path in _paths(found)}
    except UnicodeDecodeError as error:
        raise MisconfiguredError(f"skill {found.name!r} has files that are no texts; leave them out") from error
    return Skill(found.name, description=found.description, instructions=found.instructions, files=files)


class SkillCallee:
    """One of the two tools with which a model uses skills."""

    repeatable = True
    parameters: Sequence[Variable] = ()
    name = description = ""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        schema, self._check = compile_variables(self.parameters)
        schema["properties"]["skill"]["enum"] = list(skills)
        definition = ToolDefinition(self.name, self.description + _listed(skills.values()), schema, read_only=True)
        self.tool = UseTool(CallOptions(read_only=True, timeout=30.0), definition)
        self._skills = skills

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        values = self._check(args)
        if not isinstance(values, str) and values["skill"] not in self._skills:
            values = f"skill: there is none called {values['skill']!r}; there are: {', '.join(self._skills)}"
        return misfit_words(self.name, values) if isinstance(values, str) else ""

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Read the instructions or the file that the model asks for; raises CallFailed if there are none."""
        outcome: ToolOutcome = await in_thread(partial(self._outcome, self._skills[args["skill"]], args))
        return outcome

    def _outcome(self, skill: Skill, args: dict[str, Any]) -> ToolOutcome:
        raise NotImplementedError

    _check: Check


class LoadSkill(SkillCallee):
    """Gives the instructions of a skill."""

    name = LOAD_SKILL
    description = "Load the instructions of a skill before you do what it is for. The skills:\n"
    parameters = (Variable("skill", description="The name of the skill."),)

    def _outcome(self, skill: Skill, args: dict[str, Any]) -> ToolOutcome:
        if skill.folder:
            fresh = _read(skill.folder)
            if isinstance(fresh, str):
                raise CallFailed(f"the skill {skill.name} cannot be loaded: {fresh}")
            skill = fresh
        paths = list(_paths(skill))
        more = f"\n\nFiles of this skill, for {READ_SKILL_FILE}:\n" + "\n".join(paths) if paths else ""
        return ToolOutcome(cut(skill.instructions + more, self.tool.declared.max_result), skill=skill.name)


class ReadSkillFile(SkillCallee):
    """Reads a file in the folder of a skill."""

    name = READ_SKILL_FILE
    description = "Read a file that belongs to a skill. The skills:\n"
    parameters = (
        Variable("skill", description="The name of the skill."),
        Variable("path", description="The path of the file, as the skill names it."),
    )

    def _outcome(self, skill: Skill, args: dict[str, Any]) -> ToolOutcome:
        path = args["path"]
        if path in skill.files:
            return ToolOutcome(cut(skill.files[path], self.tool.declared.max_result))
        if not skill.folder:
            raise _missing(skill, path)
        data = _contents(skill, path)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return ToolOutcome("", files=(File(data, name=Path(path).name),))
        return ToolOutcome(cut(text, self.tool.declared.max_result))


def _contents(skill: Skill, path: str) -> bytes:
    """The bytes of a file inside the folder of a skill; a path that leads out of it, also by links, is refused."""
    root = os.path.realpath(skill.folder)
    try:
        target = Path(os.path.realpath(Path(root, path)))
    except (OSError, ValueError) as error:
        raise _missing(skill, path) from error
    if not target.is_relative_to(root) or not target.is_file():
        raise _missing(skill, path)
    if (size := target.stat().st_size) > LARGEST:
        raise CallFailed(f"the file {path!r} has {size} bytes, which is more than {LARGEST}")
    # The resolved path must not become a link meanwhile.
    with os.fdopen(os.open(target, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
        return file.read(LARGEST)


def _missing(skill: Skill, path: str) -> CallFailed:
    known = ", ".join(_paths(skill)) or "none"
    return CallFailed(f"the skill {skill.name} has no file {path!r}; its files: {known}")


def _paths(skill: Skill) -> Iterator[str]:
    """The files of a skill beside its SKILL.md, at most MOST_FILES."""
    yield from skill.files
    if not skill.folder:
        return
    root = Path(skill.folder)
    found = (Path(place, name) for place, _, names in os.walk(root) for name in names)
    paths = sorted(path.relative_to(root).as_posix() for path in found if not path.is_symlink())
    yield from [path for path in paths if path != MANUAL][:MOST_FILES]


def _listed(skills: Iterable[Skill]) -> str:
    return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
