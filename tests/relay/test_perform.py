"""Effects: whatever models, functions and tools do, an event comes of it that a log can keep."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from changeover import Agent, Approve, Function, Team, delegate
from changeover.errors import ChangeoverError, FunctionError, ModelError
from changeover.messages import Call
from changeover.models import Usage
from changeover.protocol import Expects
from changeover.relay.ports.world import Request
from changeover.testing import ManualClock, Reply, ScriptedModel, assert_valid_history, calls, delegates, fails, says

HALF = "half a character: \ud83d"


class Careless:
    """A model of a user's own, whose replies are given on as they are."""

    def __init__(self, *replies: Any) -> None:
        self._replies = replies
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Any:
        self.requests.append(request)
        return self._replies[len(self.requests) - 1]

    async def stream(self, request: Request) -> Any:
        yield await self.reply(request)


def look() -> str:
    """Look."""
    return "seen"


def a_team(model: Any, *members: Agent | Function) -> Team:
    return Team(members or [Agent("solo", tools=[look])], model=model, clock=ManualClock(auto=True))


async def kept(team: Team) -> bytes:
    """The conversation as a log would write it down."""
    return msgspec.json.encode([record.event for record in await team.history("c")])


ODD: Any = "odd"


@pytest.mark.parametrize(
    "reply",
    [
        *(None, "Hello.", {"text": "Hello."}),
        *(Reply(text=None), Reply(calls=None)),  # type: ignore[arg-type]
        *(Reply(calls=(ODD,)), Reply(calls=(Call("x", "look", '{"at": 1}'),))),  # type: ignore[arg-type]
        *(Reply(calls=(Call(5, "look"),)), Reply(calls=(Call("x", None),))),  # type: ignore[arg-type]
        *(Reply(text="Hello.", extra=ODD), Reply(text="Hello.", usage=ODD)),
        *(Reply(text="Hello.", usage=Usage(2.5)), Reply(text="Hello.", usage=Usage(cost=ODD))),  # type: ignore[arg-type]
    ],
)
async def test_a_model_that_gives_no_reply_has_failed(reply: Any):
    async with a_team(Careless(reply, reply, reply, says("Now I know."))) as team:
        with pytest.raises(ModelError, match="'solo' got no usable reply from its model") as caught:
            await team.run("hello", conversation="c")
        assert caught.value.result is not None
        assert (await team.run("and now?", conversation="c")).output == "Now I know."


@pytest.mark.parametrize("ids", [("same", "same"), ("", ""), ("one", "")])
async def test_calls_that_a_model_gave_no_ids_or_the_same_get_ids_of_their_own(ids: tuple[str, ...]):
    model = Careless(Reply(calls=tuple(Call(id, "look") for id in ids)), says("Seen."))
    async with a_team(model) as team:
        assert (await team.run("look twice", conversation="c")).output == "Seen."
    for request in model.requests:
        assert_valid_history(request)


@pytest.mark.parametrize(
    "reply",
    [
        says(HALF),
        says("Hello.", thinking=HALF),
        calls(("look", {"at": HALF})),
        calls(("look", HALF)),
        calls((HALF, {})),
        fails(HALF, retryable=False),
    ],
    ids=["text", "thinking", "arguments", "no arguments", "name", "failure"],
)
async def test_what_a_model_writes_can_be_kept(reply: Reply):
    async with a_team(ScriptedModel({"solo": [reply]})) as team:
        with pytest.raises(ChangeoverError) if reply.calls or not reply.text else nullcontext():
            await team.run("hello", conversation="c")
        assert b"half a character" in await kept(team)


@pytest.mark.parametrize("raises", [False, True])
async def test_what_a_function_says_can_be_kept(raises: bool):
    def speak(ctx: Any) -> str:
        if raises:
            raise RuntimeError(HALF)
        return HALF

    async with a_team(None, Function("solo", speak)) as team:
        with pytest.raises(FunctionError) if raises else nullcontext():
            await team.run("hello", conversation="c")
        assert b"half a character" in await kept(team)


def leaves() -> str:
    """Leave."""
    sys.exit(3)


async def leaves_too() -> str:
    """Leave."""
    sys.exit(3)


@pytest.mark.parametrize("tool", [leaves, leaves_too])
async def test_a_tool_that_wants_the_process_to_end_has_failed(tool: Any):
    model = ScriptedModel({"solo": [calls((tool.__name__, {})), says("Still here.")]})
    async with a_team(model, Agent("solo", tools=[tool])) as team:
        assert (await team.run("hello", conversation="c")).output == "Still here."
        assert b"SystemExit" in await kept(team)


@pytest.mark.parametrize("function", [lambda ctx: leaves(), lambda ctx: leaves_too()], ids=["plain", "async"])
async def test_a_function_that_wants_the_process_to_end_has_failed(function: Any):
    async with a_team(None, Function("solo", function)) as team:
        with pytest.raises(FunctionError, match="SystemExit"):
            await team.run("hello", conversation="c")


class Gone(Exception):
    """Stands for an ordinary error."""


def lets_out(error: BaseException, given: str) -> Any:
    """A function of the user's that raises this, as an async one or as a plain one."""

    async def later(*_: Any) -> Any:
        raise error

    def now(*_: Any) -> Any:
        raise error

    return later if given == "async" else now


WAYS: dict[str, Callable[[Any], tuple[list[Agent], dict[str, Any]]]] = {
    "accepts": lambda fn: ([Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", accepts=fn)], {}),
    "strategy": lambda fn: ([Agent("boss", handoffs=[delegate("clerk", strategy=fn)]), Agent("clerk")], {}),
    "briefing": lambda fn: ([Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", briefing=fn)], {}),
    "criterion": lambda fn: (
        [Agent("boss", handoffs=[delegate("clerk", expects=Expects(criteria=[fn]))]), Agent("clerk")],
        {},
    ),
    "approval": lambda fn: ([Agent("boss", handoffs=[delegate("clerk", approval=fn)]), Agent("clerk")], {}),
    "hook": lambda fn: (
        [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk")],
        {"hooks": {"handoff_accepted": fn}},
    ),
}
"""What a user's code is asked for on the way to a delegate and back."""


@pytest.mark.parametrize("given", ["async", "plain"])
@pytest.mark.parametrize(
    "error", [Gone(), asyncio.CancelledError(), SystemExit(3)], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("way", WAYS)
async def test_whatever_the_code_of_a_user_lets_out_the_run_goes_on(way: str, error: BaseException, given: str):
    members, options = WAYS[way](lets_out(error, given))
    model = ScriptedModel({"boss": [delegates("clerk", "count"), says("Done.")], "clerk": [says("3"), says("Three.")]})
    async with Team(members, model=model, ask=lambda request: Approve(), **options) as team:
        assert (await asyncio.wait_for(team.run("how many?"), 10)).output == "Done."
