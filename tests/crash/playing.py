"""A team that does what its user says: each message is a plan, so that many mixed stories need no scripts.

The words of a plan are the turns that the models take, one after the other:

    look+peek   call these tools in one turn          ?pay   the same, but the model fails the first time
    >billing    hand over, with a variable            =      fail until the run fails

When its plan is done, an agent answers with all that it was told since the user spoke.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from changeover import Agent, Function, RunContext, RunResult, Team, Variable, handoff, tool
from changeover.messages import Assistant, Message, ToolResult, User
from changeover.relay.ports import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import Reply, ScriptedModel, assert_valid_history, calls, fails, hands_off, says
from changeover.tools.tool import Tool

READS = ("look", "peek", "scan")
WRITES = ("save", "stamp", "recall")
TOOLS = (*READS, *WRITES, "pay")
AGENTS = ("triage", "billing", "tech")
UNKNOWN = "[unknown]"

Write = Callable[..., None]
"""Notes what happened: what, key, kind, value."""


def a_plan(rng: random.Random) -> str:
    """Some turns, of every kind sooner or later."""
    turns = [rng.choice(["", "", "", "?"]) + _turn(rng) for _ in range(rng.randint(1, 4))]
    return " ".join([*turns, ">archive"] if rng.random() < 0.2 else turns)


def _turn(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return f">{rng.choice(AGENTS)}"
    if kind < 0.6:
        return "+".join(rng.sample(READS, rng.randint(1, 3)))
    if kind < 0.75:
        return "pay"
    return "+".join(rng.sample(TOOLS, rng.randint(1, 3)))


class HastyClock:
    """The time of day, for those who sleep a fraction of what they are told to."""

    now = staticmethod(time.time)

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()) / 20)


class Play:
    """The team's models and tools; each effect is noted when it begins and when it ends, and takes a little while."""

    def __init__(self, write: Write, longest: float, seed: str = "") -> None:
        self._write, self._longest, self._rng = write, longest, random.Random(seed)
        self._model = ScriptedModel(lambda agent, messages, tools: says("never asked"))

    def team(self, store: Any) -> Team:
        return Team(self._members(), model=self, store=store, clock=HastyClock())

    async def reply(self, request: Request) -> Reply:
        key = f"{request.conversation}:{request.command}"
        self._write("begin", key, "model")
        try:
            assert_valid_history(request)
        except AssertionError as error:
            self._write("wrong", key, "model", str(error))
        await self._pause()
        script = {request.agent: {request.turn: self._line(request)}}
        reply = await _Once(script[request.agent][request.turn]).reply(request)
        self._write("end", key, "model")
        return reply

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        reply = await self.reply(request)
        if reply.text:
            yield TextDelta(reply.text, request.agent, request.conversation, request.command, request.attempt)
        yield reply

    def _line(self, request: Request) -> Reply:
        since = _since_the_user_spoke(request.messages)
        turns = since[0].text.split()
        done = sum(isinstance(message, Assistant) for message in since)
        if done >= len(turns):
            return says(f"{request.agent}: {' '.join(_shown(message) for message in since[1:])}".strip())
        turn = turns[done]
        if turn == "=" or (turn.startswith("?") and request.attempt == 1):
            return fails("overloaded")
        turn = turn.removeprefix("?")
        if turn.startswith(">"):
            return hands_off(turn[1:], f"turn {done}", order=f"{done}")
        return calls(*((name, {"number": f"{done}.{index}"}) for index, name in enumerate(turn.split("+"))))

    def _members(self) -> list[Agent | Function]:
        ways = {id: handoff(id, variables=[Variable("order")]) for id in (*AGENTS, "archive")}
        agents = [
            Agent(id, tools=self._tools(), handoffs=[way for to, way in ways.items() if to != id or True])
            for id in AGENTS
        ]
        return [*agents, Function("archive", self._archive)]

    def _tools(self) -> list[Tool]:
        async def act(name: str, number: str, ctx: RunContext) -> str:
            self._write("begin", ctx.idempotency_key, name)
            await self._pause()
            self._write("end", ctx.idempotency_key, name)
            return f"{name}:{number}"

        def declare(name: str) -> Tool:
            async def do(number: str, ctx: RunContext) -> str:
                return await act(name, number, ctx)

            return tool(name=name, read_only=name in READS, at_most_once=name == "pay")(do)

        return [declare(name) for name in TOOLS if name not in ("stamp", "recall")] + [self._stamp(), self._recall()]
