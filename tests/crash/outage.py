"""A process of its own whose agents hand over to a clerk again and again: `python -m tests.crash.outage`.

Whether the clerk is broken, and when to stop, files in a folder say, so that it is the same for all processes.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from changeover import Agent, Function, Member, RunContext, Team, handoff
from changeover.errors import FunctionError
from changeover.guards import CircuitBreaker
from changeover.messages import Message, ToolResult, User
from changeover.stores.store import Store
from changeover.testing import Reply, ScriptedModel, hands_off, says
from changeover.tools.tool import ToolDefinition

BROKEN, STOP = "broken", "stop"
THRESHOLD, COOLDOWN = 3, 0.5
PAUSE = 0.05


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    last = messages[-1]
    if isinstance(last, ToolResult):
        return says("nobody there")
    asked = next(each.text for each in messages if isinstance(each, User))
    return hands_off(asked, "count")


def team_at(url: str, folder: Path) -> Team:
    """Triage hands over to the clerk, who fails while the file says so, or to the deputy, who never does."""

    async def work(ctx: RunContext) -> str:
        broken = ctx.agent == "clerk" and (folder / BROKEN).exists()
        await asyncio.sleep(0.005)
        if broken:
            raise RuntimeError("out of order")
        return "Three."

    members: list[Member] = [
        Agent("triage", handoffs=[handoff("clerk"), handoff("deputy")]),
        Function("clerk", work),
        Function("deputy", work),
    ]
    breaker = CircuitBreaker(THRESHOLD, COOLDOWN)
    return Team(members, model=ScriptedModel(play), store=Store(url, 30.0), guards=[breaker])


async def hand_over(team: Team, folder: Path, name: str) -> None:
    """One conversation after another, now and then with the deputy."""
    turn = 0
    while not (folder / STOP).exists():
        turn += 1
        with suppress(FunctionError):
            await team.run("deputy" if turn % 4 == 0 else "clerk", conversation=f"{name}-{turn}")
        await asyncio.sleep(PAUSE)


async def main(url: str, folder: Path, name: str, count: int) -> None:
    team = team_at(url, folder)
    await team.run("deputy", conversation=f"{name}-ready")
    print("ready", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(hand_over(team, folder, f"{name}-{number}") for number in range(count)))
    await team.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
