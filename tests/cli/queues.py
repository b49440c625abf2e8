"""A team with agents that workers serve, as a file; and tickets in its queue."""

import asyncio
from pathlib import Path
from typing import Any

from changeover import Store, Team

TEAM = '''
import asyncio
from pathlib import Path

from changeover import Agent, Store, Team, delegate, handoff
from changeover.protocol import Rejected
from changeover.testing import ScriptedModel, delegates, fails, hands_off, says


async def when_told(agent, messages, tools):
    """Answer as soon as there is a file `go`."""
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return says("At last.")


async def thorough(agent, messages, tools):
    """Have research find out, and think about it for as long as it takes."""
    return delegates("research", "Find out.") if len(messages) == 1 else await when_told(agent, messages, tools)


def picky(package):
    return Rejected("no time")


script = {
    "triage": [hands_off("billing", "Charged twice.")],
    "boss": [delegates("research", "Find out."), says("Found out.")],
    "hasty": [hands_off("broken", "Do it.")],
    "hopeful": [hands_off("busy", "Would you?"), says("Then I will.")],
    "patient": [hands_off("slow", "Take your time.")],
    "alone": [hands_off("stubborn", "Take your time.")],
    "billing": [says("Sent back."), says("Once more.")],
    "research": [says("It is so.")],
    "broken": [fails("no line", retryable=False)],
    "careful": [hands_off("billing", "May I?")],
}
agents = [
    Agent("triage", handoffs=["billing"]),
    Agent("boss", handoffs=[delegate("research")]),
    Agent("thorough", model=ScriptedModel(thorough), handoffs=[delegate("research")]),
    Agent("hasty", handoffs=["broken"]),
    Agent("hopeful", handoffs=["busy"]),
    Agent("patient", handoffs=["slow"]),
    Agent("alone", handoffs=["stubborn"]),
    Agent("stubborn", model=ScriptedModel(when_told), handoffs=()),
    Agent("billing", pull=True, handoffs=()),
    Agent("research", pull=True, handoffs=()),
    Agent("broken", pull=True, handoffs=()),
    Agent("busy", pull=True, accepts=picky, handoffs=()),
    Agent("careful", pull=True, handoffs=[handoff("billing", approval=True)]),
    Agent("slow", pull=True, model=ScriptedModel(when_told), handoffs=()),
]
team = Team(agents, model=ScriptedModel(script), store=Store("sqlite:///changeover.db", lease=1))
'''


def made(folder: Path) -> Path:
    """The folder, with the team in it."""
    (folder / "shop.py").write_text(TEAM)
    return folder


def team_at(folder: Path) -> Team:
    """The same team on the same store, in this process."""
    names: dict[str, Any] = {}
    exec(TEAM, names)
    team: Team = names["team"]
    return team.on(Store(f"sqlite:///{folder / 'changeover.db'}", lease=1))


def asked(folder: Path, *agents: str) -> None:
    """Send a message to each agent, in a conversation of its name; each waits for a worker now."""

    async def ask() -> list[str]:
        async with team_at(folder) as team:
            return [(await team.run("hi", agent=agent, conversation=agent)).status for agent in agents]

    assert set(asyncio.run(ask())) == {"waiting"}


def answer(folder: Path, conversation: str) -> str:
    """The answer of a conversation."""

    async def resume() -> str:
        async with team_at(folder) as team:
            return (await team.resume(conversation)).text

    return asyncio.run(resume())
