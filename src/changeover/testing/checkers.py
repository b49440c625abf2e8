"""assert_valid_history: the invariants of every history that a model receives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from changeover.messages import Assistant, Call, Message, Note, ToolResult, User
from changeover.relay.ports.world import Request


def assert_valid_history(history: Request | Sequence[Message]) -> None:
    """Raise AssertionError unless each call has one result, directly after it and in call order, and all authors fit.

    `history` is a list of messages or a Request. For a Request, tools must also have different names, and the last
    message must be new to the model.
    """
    messages = history.messages if isinstance(history, Request) else history
    for index, message in enumerate(messages):
        _check_author(index, message)
    for asked_at, asker, results in _exchanges(messages):
        _check_exchange(asked_at, asker, results)
    if isinstance(history, Request):
        _check_request(history)


def _check_author(index: int, message: Message) -> None:
    if not isinstance(message, Message):
        _fail(index, message, "it is not a message")
    if not message.author.strip():
        _fail(index, message, "it has no author")


def _exchanges(messages: Sequence[Message]) -> Iterator[tuple[int, Message | None, list[ToolResult]]]:
    """Each message with the results directly after it; leading results come without a message."""
    asked_at, asker = -1, None
    results: list[ToolResult] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolResult):
            results.append(message)
        else:
            yield asked_at, asker, results
            asked_at, asker, results = index, message, []
    yield asked_at, asker, results


def _check_exchange(asked_at: int, asker: Message | None, results: list[ToolResult]) -> None:
    calls = asker.calls if isinstance(asker, Assistant) else ()
    agent = asker.author if asker else ""
    ids = [call.id for call in calls]
    if "" in ids:
        _fail(asked_at, asker, "one of its calls has no id")
    if twice := _repeated(ids):
        _fail(asked_at, asker, f"several of its calls have the id {twice[0]!r}")
    for index, result in enumerate(results):
        if index < len(calls):
            _check_answer(asked_at + 1 + index, result, calls[index], agent)
        else:
            surplus = "for the second time" if result.call in ids else "which the message before it did not make"
            _fail(asked_at + 1 + index, result, f"it answers the call {result.call!r} {surplus}")
    if len(results) < len(calls):
        _fail(asked_at, asker, f"its call {ids[len(results)]!r} has no answer directly after it")


def _check_answer(index: int, result: ToolResult, call: Call, agent: str) -> None:
    if result.call != call.id:
        _fail(index, result, f"it answers the call {result.call!r} where the answer to {call.id!r} is due")
    if result.name != call.name:
        _fail(index, result, f"it comes from the tool {result.name!r}, but {call.name!r} was called")
    if result.agent != agent:
        _fail(index, result, f"it is addressed to {result.agent!r}, but {agent!r} made the call")


def _check_request(request: Request) -> None:
    if twice := _repeated(tool.name for tool in request.tools):
        raise AssertionError(f"{request.agent!r} was offered several tools of the name {twice[0]!r}")
    if not request.messages:
        raise AssertionError(f"{request.agent!r} was asked without any message")
    last = request.messages[-1]
    if not isinstance(last, User | ToolResult | Note):
        _fail(len(request.messages) - 1, last, f"{request.agent!r} was asked although nothing new came after it")


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _fail(index: int, message: object, fault: str) -> NoReturn:
    raise AssertionError(f"message {index} is wrong: {fault}\n  {message!r}")
