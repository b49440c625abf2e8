"""The demo: a customer, three agents and their handoffs, read from `team.stream` as they happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from changeover.cli.desk import AGENTS, CUSTOMER, MESSAGES, desk
from changeover.cli.page import Page, console
from changeover.facts import HandoffRecord, RunResult
from changeover.messages import Call
from changeover.relay.events import HandoffAccepted, HandoffOffered, ModelReplied, RunStarted, ToolFinished
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta
from changeover.team import Team

SCRIPTED = (
    "Scripted: every reply was written beforehand, so this needs no model, no key and no network. "
    "The team, its tools, its handoffs and its log are the real ones."
)
TRY_NEXT = {
    "Fifteen lines": "a team of your own, still without a key",
    "Variables that travel": "how order_id got from triage to refunds",
    "Test your own team": "the same script, as a test",
}
"""Sections of the README."""


def play(pace: float | None = None) -> None:
    """Run the demo on standard output; unless told otherwise, at a pace to read along if that is a terminal."""
    out = console()
    if pace is None:
        pace = 1.0 if out.file.isatty() else 0.0
    page = Page(out, ["customer", *(agent.id for agent in AGENTS)])
    asyncio.run(Show(page, pace).run())


class Show:
    """Shows runs of the desk on a page."""

    def __init__(self, page: Page, pace: float) -> None:
        self._page, self._pace = page, pace
        self._calls: dict[str, Call] = {}
        self._results: list[RunResult] = []
        self._said = ""
        self._handoffs = 0

    async def run(self) -> None:
        """The whole demo, from its title to what to try next."""
        async with desk(latency=0.4 * self._pace) as team:
            self._open()
            for message in MESSAGES:
                self._page.speaker("customer")
                self._page.write(message)
                await self._wait(0.5)
                async for item in team.stream(message, conversation="demo", context=CUSTOMER):
                    await self._show(item)
            await self._close(team)

    def _open(self) -> None:
        self._page.line(Text("Changeover: three agents of a support desk hand a customer on", "bold"), margin=0)
        self._page.gap()
        self._page.line(SCRIPTED, margin=0)

    async def _show(self, item: StreamItem) -> None:
        match item:
            case TextDelta():
                self._page.write(item.text)
                await self._wait(0.025)
            case Recorded():
                await self._event(item)
            case RunFinished():
                self._results.append(item.result)
                await self._wait(0.5)
            case ThinkingDelta():
                pass  # the script thinks of nothing

    async def _event(self, recorded: Recorded) -> None:
        match recorded.event:
            case RunStarted(agent=agent):
                self._turn_to(
                    agent, "still answers: a message goes to the active agent" if self._results else "answers now"
                )
            case HandoffAccepted(receiver=agent):
                self._turn_to(agent, "answers now")
            case ModelReplied(text=text, calls=calls):
                self._said = text
                # The log names a call by its place: the position of the reply, and its number there.
                self._calls |= {f"{recorded.position}.{index}": call for index, call in enumerate(calls)}
            case ToolFinished(call=id, text=text):
                call = self._calls[id]
                self._page.line("calls ", Text(f"{call.name}({_listed(call.args)})", "bold"))
                self._page.line(Text(f"{self._page.elbow} {text}", "dim"))
                await self._wait(0.5)
            case HandoffOffered() as offer:
                self._handoff(offer)
                await self._wait(0.7)
            case _:
                pass  # of the rest the page shows nothing

    def _handoff(self, offer: HandoffOffered) -> None:
        self._handoffs += 1
        self._page.gap()
        self._page.line(
            Text(f"HANDOFF {self._handoffs}", "black on yellow"),
            " ",
            self._page.name(offer.sender),
            f" {self._page.arrow} ",
            self._page.name(offer.receiver),
            Text(f"   by {self._calls[offer.call].name}", "dim"),
            margin=0,
        )
        # A declared handoff takes the text beside the call as its message, and that is on the page already.
        said = Text("what was just said", "dim") if offer.message == self._said else Text(offer.message)
        self._page.line(_field("message"), said)
        for name, value in offer.variables.items():
            self._page.line(_field(name), json.dumps(value))

    def _turn_to(self, agent: str, note: str) -> None:
        self._page.speaker(agent)
        self._page.line(Text(note, "dim"))

    async def _close(self, team: Team) -> None:
        chain, events = await team.handoffs("demo"), await team.history("demo")
        self._page.rule("what happened")
        self._page.entry("chain", *self._drawn(chain))
        self._page.entry("context", f"{', '.join(self._results[-1].variables)} (all known to refunds)")
        self._page.entry("totals", self._totals(chain))
        self._page.entry("log", f"{len(events)} events; what you see above is read from them")
        self._page.rule("what to try next")
        for section, about in TRY_NEXT.items():
            self._page.entry("README", Text(section, "bold"), f": {about}")
        self._page.entry("desk.py", "in changeover/cli: the desk you have just seen, as code")

    def _drawn(self, chain: list[HandoffRecord]) -> list[Text | str]:
        """The way from the first agent to the last."""
        hops = [(f" {self._page.arrow} ", self._page.name(handoff.receiver)) for handoff in chain]
        return [self._page.name(chain[0].sender), *(part for hop in hops for part in hop)]

    def _totals(self, chain: list[HandoffRecord]) -> str:
        turns = sum(result.ledger.turns for result in self._results)
        agents = {agent for handoff in chain for agent in (handoff.sender, handoff.receiver)}
        return f"{len(chain)} handoffs, {turns} model turns, {len(agents)} agents"

    async def _wait(self, seconds: float) -> None:
        if self._pace:
            await asyncio.sleep(seconds * self._pace)


def _field(name: str) -> Text:
    return Text(f"{name:<12}", "yellow")


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in values.items())
