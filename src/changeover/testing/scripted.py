"""ScriptedModel: a model that replies from a script of says(), calls(), hands_off() … and records its requests."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

from msgspec import structs

from changeover.agent.handoff import tool_name
from changeover.agent.moves import GENERIC_TOOL, is_generic
from changeover.copies import original
from changeover.errors import ModelError
from changeover.facts import Usage
from changeover.messages import Call, Message, Reply
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.tools.tool import ToolDefinition


class HandsOff(Call, frozen=True, kw_only=True):
    """A handoff in a script. The tools of a request decide which tool it calls."""

    receiver: str
    message: str
    variables: dict[str, Any]

    def by(self, tools: Sequence[ToolDefinition]) -> tuple[Call, str]:
        """The call that makes this handoff with these tools, and the text beside it."""
        tools = [tool for tool in tools if not tool.delegate]
        tool = self._declared(tools)
        if tool is None or (not self.variables and self._generic_reaches(tools)):
            return Call("", GENERIC_TOOL, self.args), ""
        return Call("", tool.name, self.variables), self.message

    def _generic_reaches(self, tools: Sequence[ToolDefinition]) -> bool:
        return any(is_generic(tool) and self.receiver in tool.receivers for tool in tools)

    def _declared(self, tools: Sequence[ToolDefinition]) -> ToolDefinition | None:
        declared = [tool for tool in tools if tool.receivers == (self.receiver,) and not is_generic(tool)]
        fitting = (tool for tool in declared if self.variables.keys() <= _properties(tool).keys())
        return next(fitting, declared[0] if declared else None)


class Delegates(Call, frozen=True, kw_only=True):
    """A task for a delegate in a script. The tools of a request decide which tool it calls."""

    receiver: str

    def by(self, tools: Sequence[ToolDefinition]) -> tuple[Call, str]:
        """The call that gives this task with these tools; there is no text beside it."""
        reaching = (tool.name for tool in tools if tool.delegate and tool.receivers == (self.receiver,))
        return Call("", next(reaching, self.name), self.args), ""


class Failure(Reply, frozen=True, kw_only=True):
    """A model call that fails. A subclass of Reply, so that a script's function may return it."""

    reason: str
    retryable: bool = True


Line: TypeAlias = Reply | BaseException
"""One line of a script. An exception is raised unchanged."""

CallItem: TypeAlias = tuple[str, Mapping[str, Any] | str] | tuple[str, Mapping[str, Any] | str, str]
"""A call in a script: the tool's name, the arguments and, if it matters, the id of the call."""


def says(text: str, *, thinking: str = "", usage: Usage | None = None) -> Reply:
    """A `text` and no calls. `thinking` is the model's thinking, `usage` what it spent (default: one request)."""
    return Reply(text=text, thinking=thinking, usage=usage or Usage(requests=1))


def calls(*items: CallItem | Reply, text: str = "") -> Reply:
    """One call for each of the `items`: `("tool", {"arg": 1})`, `hands_off(…)` and `delegates(…)`, in this order.
    `text` stands beside the calls.

    A third item, `("tool", {"arg": 1}, "id")`, is the id of the call; by default the model makes one. A str in place of
    the arguments stands for output of a model that is not a JSON object.
    """
    texts = [text, *(item.text for item in items if isinstance(item, Reply))]
    return Reply(text=_lines(texts), calls=tuple(call for item in items for call in _calls_of(item)))


def hands_off(receiver: str, /, message: str = "", *, text: str = "", **variables: Any) -> Reply:
    """A handoff: by the generic tool if it reaches the receiver and no variables are given, else by the declared one.

    A declared handoff takes the `variables` as its arguments and the `message` as the `text` beside the call. If no
    tool reaches the `receiver`, the generic one is called, as by a model that invents a receiver.
    """
    args = {**variables, "to": receiver, "message": message}
    call = HandsOff(id="", name=GENERIC_TOOL, args=args, receiver=receiver, message=message, variables=variables)
    return Reply(text=text, calls=(call,))


def delegates(receiver: str, task: str = "", context: str = "", text: str = "") -> Reply:
    """A `task` for a delegate, the `receiver`, by the tool that reaches it. `context` is what the delegate should know,
    and `text` stands beside the call.

    If there is no tool, `delegate_to_<receiver>` is called, as by a model that invents a tool.
    """
    args = {"task": task, "context": context} if context else {"task": task}
    return Reply(
        text=text,
        calls=(Delegates(id="", name=tool_name("delegate_to", receiver), args=args, receiver=receiver),),
    )


def fails(reason: str, *, retryable: bool = True) -> Reply:
    """A model call that fails with a ModelError of this `reason`; if it is not `retryable`, it ends the run."""
    return Failure(reason=reason, retryable=retryable)


def resolve(reply: Reply, request: Request) -> Reply:
    """The reply as it answers this request: handoffs and delegates by the tools on offer, every call with an id."""
    if not reply.calls:
        return reply
    texts, resolved = [reply.text], []
    for index, scripted in enumerate(reply.calls):
        call = scripted
        if isinstance(scripted, HandsOff | Delegates):
            call, beside = scripted.by(request.tools)
            texts.append(beside)
        # A command has one reply, so its id makes the call's unique; copied, because a tool may change its arguments.
        id = call.id or f"call_{request.command}_{index}"
        resolved.append(structs.replace(call, id=id, args=deepcopy(call.args)))
    return structs.replace(reply, text=_lines(texts), calls=tuple(resolved))


def _calls_of(item: CallItem | Reply) -> tuple[Call, ...]:
    match item:
        case Reply() if not isinstance(item, Failure):
            return item.calls
        case (str(name), str() | Mapping() as args):
            return (_call(name, args),)
        case (str(name), str() | Mapping() as args, str(id)):
            return (_call(name, args, id),)
        case _:
            raise TypeError(f'a call is written ("tool", {{"arg": 1}}), hands_off(…) or delegates(…); not {item!r}')


def _call(name: str, args: Mapping[str, Any] | str, id: str = "") -> Call:
    return Call(id, name, malformed=args) if isinstance(args, str) else Call(id, name, dict(args))


def _properties(tool: ToolDefinition) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = original(tool, "parameters").get("properties", {})
    return properties


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


Lines: TypeAlias = Mapping[str, Sequence[Line]]
Play: TypeAlias = (
    Callable[[Request], Line | Awaitable[Line]]
    | Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Line | Awaitable[Line]]
)

POSSIBLE = "a line of a script is says(…), calls(…), hands_off(…), delegates(…), fails(…), a Reply or an exception"


class ScriptedModel:
    """A model with scripted replies: a list for each agent, or a function of the request, or of agent, messages and
    tools.

    Each conversation reads a list from its beginning. The position in the list comes from the conversation's log, so a
    script continues at the right line after a restart, and several models may share it. `latency` delays each reply by
    that many seconds. A request without a line raises ModelError. `context_window` is how many tokens it says that it
    can read, which limits the briefings that its agents get.
    """

    def __init__(self, script: Lines | Play, *, latency: float = 0.0, context_window: int | None = None) -> None:
        self._read = _reader(script)
        self._latency = latency
        self.context_window = context_window
        self.requests: list[Request] = []
        """Every request to this model, in order; the messages are read-only views, not copies."""

    async def reply(self, request: Request) -> Reply:
        """The next line of the script for the agent and the conversation of the `request`."""
        self.requests.append(request)
        if self._latency:
            await asyncio.sleep(self._latency)
        read = self._read(request)
        line = await read if inspect.isawaitable(read) else read
        match line:
            case Failure():
                raise ModelError(line.reason, agent=request.agent, retryable=line.retryable)
            case Reply():
                return resolve(line, request)
            case BaseException():
                # Without an earlier traceback: the same exception may be raised in many conversations.
                raise line.with_traceback(None)
            case _:
                raise _script_error(request, f"the script of {request.agent!r} gave {line!r}; {POSSIBLE}")

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply to a `request` word by word, its thinking first, then the same reply whole."""
        reply = await self.reply(request)
        for piece in _pieces(reply, request):
            yield piece
            await asyncio.sleep(0)  # lets readers of the stream take each word before the next one
        yield reply


def _reader(script: Lines | Play) -> Callable[[Request], Line | Awaitable[Line]]:
    if isinstance(script, Mapping):
        return _Lines(script).read
    if not callable(script):
        raise TypeError(f"a script is a mapping of agent id to a list of replies, or a function; not {script!r}")
    play: Callable[..., Line | Awaitable[Line]] = script
    if _takes(play, 3):
        return lambda request: play(request.agent, request.messages, request.tools)
    if _takes(play, 1):
        return play
    raise TypeError(f"the function of a script takes the request, or agent, messages and tools; not as {script!r}")


def _takes(fn: Callable[..., object], count: int) -> bool:
    """True if a function can be called with `count` arguments, or if that cannot be known."""
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


class _Lines:
    """The script of each agent: a checked copy of the caller's lists."""

    def __init__(self, script: Lines) -> None:
        self._lines = {agent: _checked(agent, lines) for agent, lines in script.items()}

    def read(self, request: Request) -> Line:
        """The line for the agent's next turn in this conversation."""
        agent, turn = request.agent, request.turn
        lines = self._lines.get(agent)
        if lines is None:
            raise _script_error(
                request, f"{agent!r} has no script; there is one for: {', '.join(sorted(self._lines)) or 'no agent'}"
            )
        if turn >= len(lines):
            size = "1 reply" if len(lines) == 1 else f"{len(lines)} replies"
            raise _script_error(
                request, f"the script of {agent!r} has {size}, but reply number {turn + 1} was requested"
            )
        return lines[turn]


def _checked(agent: object, lines: object) -> tuple[Line, ...]:
    if not isinstance(agent, str):
        raise TypeError(f"a script belongs to an agent's id, a str; not {agent!r}")
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        raise TypeError(f"the script of {agent!r} must be a list of replies, not {lines!r}")
    for index, line in enumerate(lines):
        if not isinstance(line, Line):
            raise TypeError(f"line {index} of the script of {agent!r} is {line!r}; {POSSIBLE}")
    return tuple(lines)


def _script_error(request: Request, message: str) -> ModelError:
    """An error in the script, which a retry cannot solve."""
    return ModelError(message, agent=request.agent, retryable=False)


def _pieces(reply: Reply, request: Request) -> Iterator[TextDelta | ThinkingDelta]:
    place = (request.agent, request.conversation, request.command, request.attempt)
    yield from (ThinkingDelta(word, *place) for word in _words(reply.thinking))
    yield from (TextDelta(word, *place) for word in _words(reply.text))


def _words(text: str) -> list[str]:
    """Words, each with the space after it; joined, they are the text."""
    return re.findall(r"\S+\s*|\s+", text)
