"""Talk: a written conversation that a team can play.

A talk is a text file. Who speaks stands before a colon; below what an agent says stand its call of a tool, `->`, with
the result, `<-`, or the handoff that it makes, `=>`. A file that the user attaches stands behind the words in brackets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from changeover import Agent, File, Team, tool
from changeover.facts import HandoffRecord
from changeover.messages import Reply
from changeover.testing import calls, hands_off, says
from changeover.tools.tool import Tool

FOLDER = Path(__file__).parent / "talks"
SAID = re.compile(r"(?P<who>\w+): (?P<text>.*?)(?: \[(?P<file>[\w.]+)\])?$")
CALLED = re.compile(r"  -> (?P<tool>\w+): (?P<about>.*)$")
HANDED = re.compile(r"(?:\w+:|  ?) ?=> (?P<receiver>\w+): (?P<message>.*)$")
ANSWERED = "  <- "
MORE = "     "


class Turn(NamedTuple):
    """A message of the user, and the name of its attachment."""

    text: str
    file: str = ""

    @property
    def files(self) -> list[File]:
        return [File((FOLDER / self.file).read_bytes(), "text/markdown", self.file)] if self.file else []


class Talk:
    """A conversation: the user's messages, the replies of each model, and the results of tools."""

    def __init__(self, text: str) -> None:
        self.turns: list[Turn] = []
        self.lines: dict[str, list[Reply]] = defaultdict(list)
        self.tools: dict[str, list[Tool]] = defaultdict(list)
        self.ways: dict[str, list[str]] = defaultdict(list)
        self._found: dict[tuple[str, str], str] = {}
        for part in _parts(text):
            self._take(part)

    @classmethod
    def named(cls, name: str) -> Talk:
        """The talk in the file of this name."""
        return cls((FOLDER / f"{name}.txt").read_text())

    def agents(self) -> list[Agent]:
        """The agents that speak, with their tools."""
        return [
            Agent(
                name,
                instructions=f"You are {name}. Help with what is yours, and hand on what is not.",
                tools=self.tools[name],
                handoffs=self.ways[name],
            )
            for name in self.lines
        ]

    async def play(self, team: Team, conversation: str) -> list[HandoffRecord]:
        """Send the user's messages to the team in turn; returns the handoffs."""
        results = [await team.run(turn.text, conversation=conversation, files=turn.files) for turn in self.turns]
        return [handoff for result in results for handoff in result.handoff_chain]

    def _take(self, part: list[str]) -> None:
        said, handed = SAID.match(part[0]), HANDED.match(part[0])
        assert said is not None
        who, text = said["who"], "" if handed else said["text"]
        if who == "user":
            self.turns.append(Turn(text, said["file"] or ""))
        elif called := CALLED.match(part[1]) if len(part) > 1 else None:
            self._provide(who, called["tool"], called["about"], part[2:])
            self.lines[who].append(calls((called["tool"], {"about": called["about"]}), text=text))
        elif handed := handed or (HANDED.match(part[1]) if len(part) > 1 else None):
            self.ways[who].append(handed["receiver"])
            self.lines[who].append(hands_off(handed["receiver"], handed["message"], text=text))
        else:
            self.lines[who].append(says(text))

    def _provide(self, who: str, name: str, about: str, result: list[str]) -> None:
        self._found[name, about] = "\n".join(line.removeprefix(ANSWERED).removeprefix(MORE) for line in result)
        if name not in {each.name for each in self.tools[who]}:
            self.tools[who].append(self._tool(name))

    def _tool(self, name: str) -> Tool:
        def look_up(about: str) -> str:
            """What is known about something."""
            return self._found[name, about]

        return tool(name=name)(look_up)


def _parts(text: str) -> Iterator[list[str]]:
    """Each spoken line, with the lines below it."""
    part: list[str] = []
    for line in filter(None, text.splitlines()):
        if part and not line.startswith(" "):
            yield part
            part = []
        part.append(line)
    yield part
