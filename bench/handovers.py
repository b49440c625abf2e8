"""What reaches the receiver of a transfer, a delegate or a specialist after a long conversation in any language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.context import LIMITS, can_fetch, read_weight
from bench.grid import Grid
from bench.histories import History, Planted
from bench.talk import Talk
from changeover import Agent, Full, Recent, Reference, Summary, Team, delegate, specialist
from changeover.handoffs.strategies import FETCH, Strategy
from changeover.messages import Message, Reply, ToolResult
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition

STRATEGIES: dict[str, Strategy] = {
    "Full()": Full(),
    "Recent(5)": Recent(5),
    "Summary()": Summary(),
    "Reference()": Reference(),
}
WISH = {"specialist_type": "finishing", "task": "Please finish this.", "reason": "It is your field."}
WAYS: dict[str, Reply] = {
    "transfer": hands_off("expert", "Please finish this."),
    "delegate": delegates("expert", "Please finish this."),
    "specialist": calls(("handoff_to_specialist", WISH)),
}
VAGUE = says("They talked about this and that, and settled some details.")
"""What the summariser writes: none of the facts, so that all depends on the library."""
MORE = re.compile(r'\[it goes on: section "(.+)"\]')
HEAD = ("history", "strategy", "way", "tokens", "share", "in view", "one query", "paging", "lost", "outdated")


class Reached(NamedTuple):
    """What a receiver read first, the answers to one query for each fact, and all pages."""

    facts: Sequence[Planted]
    tokens: int
    view: str
    answers: Sequence[str]
    pages: str

    def tally(self) -> tuple[int, int, int, int]:
        """Number of facts in view, found by one query, found by paging, and lost."""
        places = [0, 0, 0, 0]
        for fact, answer in zip(self.facts, self.answers or [""] * len(self.facts), strict=True):
            found = [fact.value in text for text in (self.view, answer, self.pages)]
            places[found.index(True) if True in found else 3] += 1
        return places[0], places[1], places[2], places[3]

    @property
    def outdated(self) -> int:
        """Number of texts that show an outdated value without the one that corrects it."""
        texts = [self.view, *(f"{self.view}\n{answer}" for answer in self.answers)]
        return sum(
            any(fact.outdated and fact.outdated in text and fact.value not in text for fact in self.facts)
            for text in texts
        )


class Receiver:
    """A receiver that looks for each fact with one query, and then reads everything page by page."""

    def __init__(self, facts: Sequence[Planted]) -> None:
        self._facts = facts
        self.view, self.tokens = "", 0
        self.answers: list[str] = []
        self.pages = ""

    def plays(self, agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if not self.view:
            self.view = "\n".join(message.text for message in messages)
            self.tokens = sum(map(read_weight, messages))
            queries: list[Any] = [(FETCH, {"query": fact.question}) for fact in self._facts]
            return calls(*queries) if can_fetch(tools) else says("Done.")
        results = [message.text for message in messages if isinstance(message, ToolResult) and message.name == FETCH]
        if not self.answers:
            self.answers = results[-len(self._facts) :]
            return calls((FETCH, {"section": "passages 1-99999"}))
        self.pages += results[-1]
        found = MORE.search(results[-1])
        return calls((FETCH, {"section": found[1]})) if found else says("Done.")


async def reached(history: History, strategy: Strategy, way: str) -> Reached:
    """Play a history with a team, and hand it over to an expert this way."""
    receiver, talk = Receiver(history.facts), Talk(history.text)
    lines = {**talk.lines, "desk": [*talk.lines["desk"], WAYS[way], says("It is done.")]}
    handoffs: Any = {"transfer": ["expert"], "delegate": [delegate("expert")], "specialist": [specialist()]}[way]
    desk = Agent("desk", instructions="Help.", tools=talk.tools["desk"], handoffs=handoffs)
    model = ScriptedModel(receiver.plays)
    expert = Agent("expert", instructions="Finish.", handoffs=[], capabilities=["finishing"], model=model)
    helper = ScriptedModel(lambda agent, messages, tools: VAGUE)
    options: dict[str, Any] = {"helper_model": helper, "strategy": strategy, "limits": LIMITS}
    async with Team([desk, expert], model=ScriptedModel(lines), **options) as team:
        await talk.play(team, "history")
        await team.run("Can somebody finish this?", conversation="history", agent="desk")
    return Reached(history.facts, receiver.tokens, receiver.view, receiver.answers, receiver.pages)


Handovers = dict[tuple[str, str, str], Reached]
"""By history, strategy and way."""


async def handovers(histories: Sequence[History], ways: Sequence[str] = tuple(WAYS)) -> Handovers:
    """Measure all histories under all strategies in these ways."""
    return {
        (history.name, name, way): await reached(history, strategy, way)
        for history in histories
        for name, strategy in STRATEGIES.items()
        for way in ways
    }


def share(measured: Handovers, key: tuple[str, str, str]) -> float:
    """The tokens of a receiver, as a share of those under Full()."""
    return measured[key].tokens / measured[key[0], "Full()", key[2]].tokens


def languages(measured: Handovers) -> Grid:
    """The table of what reaches receivers; for Full() and Recent(), only of transfers."""
    rows, before = [], ""
    for key, each in measured.items():
        history, strategy, way = key
        if way != "transfer" and strategy in ("Full()", "Recent(5)"):
            continue
        title, before = "" if history == before else history, history
        figures = [*map(str, each.tally()), str(each.outdated)]
        rows.append((title, strategy, way, f"{each.tokens:,}", f"{share(measured, key):.0%}", *figures))
    return Grid("Twelve facts in conversations of four languages", HEAD, rows)
