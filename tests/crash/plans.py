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
from typing import Any

from changeover import Agent, Function, Member, RunContext, RunResult, Team, Variable, handoff, tool
from changeover.errors import ModelError
from changeover.messages import Assistant, Message, ToolResult, User
from changeover.relay.ports.engine import EngineFactory
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import Reply, assert_valid_history, calls, hands_off, says
from changeover.testing.scripted import resolve
from changeover.tools.tool import Tool

READS = ("look", "peek", "scan")
TOOLS = (*READS, "save", "stamp", "recall", "pay")
AGENTS = ("triage", "billing", "tech")

Write = Callable[[str, str, str, Any], None]
"""Notes what happened: what, key, kind, value."""


def a_plan(rng: random.Random) -> str:
    """Some turns, of every kind sooner or later."""
    turns, agent = list[str](), AGENTS[0]
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.3:
            agent = rng.choice([other for other in AGENTS if other != agent])
            turn = f">{agent}"
        elif kind < 0.6:
            turn = "+".join(rng.sample(READS, rng.randint(1, 3)))
        elif kind < 0.75:
            turn = "pay"
        else:
            turn = "+".join(rng.sample(TOOLS, rng.randint(1, 3)))
        turns.append(rng.choice(["", "", "", "?"]) + turn)
    return " ".join([*turns, ">archive"] if rng.random() < 0.2 else turns)


class HastyClock:
    """The time of day, for those who sleep a fraction of what they are told to."""

    now = staticmethod(time.time)

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()) / 20)

    async def alarm(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()))


class Play:
    """The team's models and tools; each effect is noted when it begins and when it ends, and takes a little while."""

    def __init__(self, write: Write, longest: float = 0.0, seed: str = "") -> None:
        self._write, self._longest, self._rng = write, longest, random.Random(seed)

    def team(self, store: Any, engine: EngineFactory | None = None) -> Team:
        ways = {id: handoff(id, variables=[Variable("order")]) for id in (*AGENTS, "archive")}
        tools = [self._tool(name) for name in TOOLS]
        agents = [Agent(id, tools=tools, handoffs=[way for to, way in ways.items() if to != id]) for id in AGENTS]
        members: list[Member] = [*agents, Function("archive", self._archive)]
        return Team(members, model=self, store=store, clock=HastyClock(), engine=engine)

    async def reply(self, request: Request) -> Reply:
        key = f"{request.conversation}:{request.command}"
        self._write("begin", key, "model", request.attempt)
        try:
            assert_valid_history(request)
        except AssertionError as error:
            self._write("wrong", key, "history", str(error))
        await self._pause()
        reply = resolve(_line(request), request)
        self._write("end", key, "model", None)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        reply = await self.reply(request)
        if reply.text:
            yield TextDelta(reply.text, request.agent, request.conversation, request.command, request.attempt)
        yield reply

    async def _archive(self, ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        return await self._act("archive", received.message, ctx)

    def _tool(self, name: str) -> Tool:
        """One in a thread, one that reads the context, and others."""

        async def act(number: str, ctx: RunContext) -> str:
            return await self._act(name, number, ctx)

        async def recall(number: str, ctx: RunContext) -> str:
            return f"{await self._act(name, number, ctx)}={ctx.context.get('order')}"

        def stamp(number: str, ctx: RunContext) -> str:
            self._write("begin", ctx.idempotency_key, name, None)
            time.sleep(self._rng.uniform(0, self._longest))
            self._write("end", ctx.idempotency_key, name, None)
            return f"{name}:{number}"

        function = {"stamp": stamp, "recall": recall}.get(name, act)
        return tool(name=name, read_only=name in READS, at_most_once=name == "pay")(function)

    async def _act(self, name: str, number: str, ctx: RunContext) -> str:
        self._write("begin", ctx.idempotency_key, name, None)
        await self._pause()
        self._write("end", ctx.idempotency_key, name, None)
        return f"{name}:{number}"

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._longest))


def _line(request: Request) -> Reply:
    """What is due by the plan, of which every reply since the user spoke has done one turn."""
    messages = request.messages
    spoke = max(index for index, message in enumerate(messages) if isinstance(message, User))
    since = messages[spoke + 1 :]
    turns, done = messages[spoke].text.split(), sum(isinstance(message, Assistant) for message in since)
    if done >= len(turns):
        return says(f"{request.agent} {_told(since)}")
    turn = turns[done]
    if turn == "=" or (turn.startswith("?") and request.attempt == 1):
        raise ModelError("overloaded", agent=request.agent)
    turn = turn.removeprefix("?")
    if turn.startswith(">"):
        return hands_off(turn[1:], f"turn {done}", order=f"{done}")
    return calls(*((name, {"number": f"{done}.{index}"}) for index, name in enumerate(turn.split("+"))))


def _told(since: Sequence[Message]) -> str:
    asked = {call.id: call for message in since if isinstance(message, Assistant) for call in message.calls}
    results = [message for message in since if isinstance(message, ToolResult)]
    return "; ".join(f"{asked[result.call].args.get('number', 'to')} {result.text}" for result in results)


def essence(result: RunResult) -> list[Any]:
    """What must be the same however often the process died. Whether `pay` is known to have ended is up to fate."""
    chain = [[h.sender, h.receiver, h.message, str(h.state), h.variables] for h in result.handoff_chain]
    output = "; ".join(_without_fate(part) for part in result.output.split("; "))
    return [output, result.final_agent, result.status, chain]


def _without_fate(part: str) -> str:
    before, unknown, _ = part.partition("unknown: ")
    return f"{before}pay:{before.split()[-1]}" if unknown else part
