"""OfflineModel: replies for demos and first tries, found by comparing words; it needs no network and no key."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from changeover.agent.moves import is_generic
from changeover.copies import original
from changeover.facts import DelegateResult
from changeover.handoffs.context import select_variables
from changeover.messages import Assistant, Call, Message, Note, Reply, ToolResult, User
from changeover.models.offline.arguments import Known, fill, stems
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.routing.match import rank, shared
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

NOTICE = (
    "no real model is set: model=\"offline\" only compares words. To set one: pip install 'changeover[openai]',"
    ' set OPENAI_API_KEY, and write model="openai:gpt-5" in place of "offline"'
)
CLEARLY = 1.2
"""Another agent must score this many times better than this one to get the topic."""
NEARLY = 0.4
"""A further delegate must reach this share of the best score."""
MOST_HOPS, MOST_CALLS, MOST_PARTS = 3, 3, 5
"""Handoffs of one topic, calls in one reply, and messages of the user that make one topic."""
OWN = "own"
QUESTION = "Please tell me "
"""Begins a question for missing arguments; the user's next message may be the answer to it."""
THANKS = re.compile(r"\b(?:thanks|thank you|cheers)\b", re.I)


@cache
def _say_once() -> None:
    logging.getLogger("changeover").warning(NOTICE)


class OfflineModel:
    """Picks a handoff, a tool or an answer by comparing the user's words with the descriptions of agents and tools.

    It does not understand language: use it to try out a team, for demos, and to test routes. The reply depends on the
    request alone. For one message of the user an agent hands over at most once and calls each tool at most once; a tool
    that is not `read_only` is called only if the user names it. Once per process a warning says that this is not a real
    model; `notice=False` switches that off.
    """

    def __init__(self, notice: bool = True) -> None:
        self._notice = notice

    async def reply(self, request: Request) -> Reply:
        """The reply to this request; the same request always gets the same reply."""
        if self._notice:
            _say_once()
        return Choice(request).reply()

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply word by word, then the same reply whole."""
        reply = await self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.text):
            yield TextDelta(word, request.agent, request.conversation, request.command, request.attempt)
            await asyncio.sleep(0)  # lets readers of the stream take each word before the next one
        yield reply


class Way(Struct, frozen=True):
    """A possible call, with the text that describes it."""

    tool: ToolDefinition
    about: str
    receiver: str = ""


class Choice:
    """What to do about one request."""

    def __init__(self, request: Request) -> None:
        self._request, self._agent = request, request.agent
        messages = original(request, "messages")
        last = _last_user(messages, len(messages))
        since = messages[last + 1 :]
        called = [each for each in since if isinstance(each, ToolResult) and each.agent == self._agent]
        transfers = {tool.name for tool in request.tools if tool.receivers and not tool.delegate}
        self._tried = {each.name for each in called}
        self._results = [each for each in called if not (each.ok and each.name in transfers)]
        self._passed = {each.agent for each in since if isinstance(each, Assistant)} - {self._agent}
        noted = any(isinstance(each, Note) and each.author != Note("").author for each in since)
        handed = request.context.handed if request.context else None
        # It must not hand on if another agent waits for its result, or if it cannot see who had the topic before.
        self._settled = noted or (last >= 0 and handed is not None and handed.sender == messages[last].author)
        self._tools = [Way(tool, _about(tool)) for tool in request.tools if not tool.receivers]
        self._ways = list(self._open_ways())
        self._profiles = {OWN: self._own_text()} | {str(n): way.about for n, way in enumerate(self._ways)}
        self._topic = self._joined(messages, last)
        found = "\n".join(_plain(each) for each in self._results if each.ok)
        self._known = Known(self._topic, found, _variables(request.context))

    def reply(self) -> Reply:
        """The best reply: hand over, call tools, ask the user for a value, or answer."""
        elsewhere = self._elsewhere(self._topic)
        best = elsewhere[0] if elsewhere else None
        tools = [way for way in self._tools if self._may_call(way)]
        ready = [way for way in tools if not self._arguments(way)[1]]
        if best is not None and best.tool.delegate:
            return self._calls([way for way in elsewhere if way.tool.delegate])
        if best is not None and not self._arguments(best)[1]:
            return self._calls([best], f"{_name(best.receiver)} can help with that.")
        if ready:
            return self._calls(ready)
        if (lacking := [best] if best else tools) and not self._results:
            return Reply(text=self._question(lacking[0]))
        return Reply(text=self._answer())

    def _elsewhere(self, text: str) -> list[Way]:
        """The way to the agent that fits a text clearly better than this one, and those that fit nearly as well."""
        scores = dict(rank(text, self._profiles))
        least = scores.pop(OWN, 0.0) * CLEARLY
        best = max(scores.values(), default=0.0)
        return [self._ways[int(n)] for n, score in scores.items() if best > least and score >= best * NEARLY]

    def _joined(self, messages: Sequence[Message], last: int) -> str:
        """The user's last request, and the answers to our questions that followed it."""
        parts: list[str] = []
        while last >= 0 and len(parts) < MOST_PARTS:
            said, before = messages[last].text, messages[last - 1] if last else None
            parts.insert(0, said)
            asked = isinstance(before, Assistant) and before.text.startswith(QUESTION)
            last = _last_user(messages, last) if asked and not self._elsewhere(said) else -1
        return " ".join(parts)

    def _may_call(self, way: Way) -> bool:
        """True if the topic is about a tool that only reads, or names one that may change something."""
        if way.tool.name in self._tried or not shared(self._topic, way.about):
            return False
        if self._results and not fill(way.tool.parameters, Known(self._topic))[1]:
            return False  # it could have been called before
        if way.tool.read_only:
            return True
        own, things = stems(way.tool.name), stems(" ".join(way.tool.parameters.get("properties", ())))
        # Of refund_order(order_id) the user must say "refund": an order is what many sentences are about.
        return any(not term.startswith("~") for term in shared(self._topic, " ".join(own - things or own)))

    def _calls(self, ways: Sequence[Way], text: str = "") -> Reply:
        # The ids are unique, because each command has one reply.
        made = [(way.tool.name, self._arguments(way)[0]) for way in ways[:MOST_CALLS]]
        calls = (Call(f"call_{self._request.command}_{n}", name, args) for n, (name, args) in enumerate(made))
        return Reply(text=text, calls=tuple(calls))

    def _arguments(self, way: Way) -> tuple[dict[str, Any], list[str]]:
        args, missing = fill(way.tool.parameters, self._known)
        if way.receiver and is_generic(way.tool):
            args["to"] = way.receiver
        return args, [name for name in missing if name not in args]

    def _open_ways(self) -> Iterator[Way]:
        """The ways to other agents; an agent that has called something reports the result itself."""
        if self._settled or self._results:
            return
        for tool in self._request.tools:
            for receiver in tool.receivers if tool.name not in self._tried else ():
                again = receiver in self._passed or len(self._passed) >= MOST_HOPS
                if receiver != self._agent and (tool.delegate or not again):
                    yield Way(tool, f"{receiver} {receiver} {_line(tool, receiver)}", receiver)

    def _own_text(self) -> str:
        """The text about this agent: its instructions without the clauses about other agents, its line, its tools."""
        request = self._request
        own = request.instructions if request.own_instructions is None else request.own_instructions
        others = {name for tool in request.tools for name in tool.receivers} - {self._agent}
        named = re.compile(rf"\b(?:{'|'.join(map(re.escape, others))})\b", re.I)
        clauses = [each for each in re.split(r"[.,;:\n]", own) if not (others and named.search(each))]
        lines = [_line(tool, self._agent) for tool in request.tools if self._agent in tool.receivers]
        return " ".join([self._agent, self._agent, *clauses, *lines, *(way.about for way in self._tools)])

    def _question(self, way: Way) -> str:
        wanted = [f"the {_words(name)}" for name in self._arguments(way)[1]]
        goal = f"pass you on to {_name(way.receiver)}" if way.receiver else f"use {_words(way.tool.name)}"
        return f"{QUESTION}{_listed(wanted, 'and')}, so that I can {goal}."

    def _answer(self) -> str:
        """The results of calls, or what this agent can do; the offline model writes no answer of its own."""
        if self._results:
            return " ".join(map(self._reported, self._results))
        if THANKS.search(self._topic):
            return "You are welcome."
        uses = [f"use {_words(way.tool.name)}" for way in self._tools]
        receivers = [way.receiver for way in self._ways if not way.tool.delegate]
        passes = [f"pass you on to {_listed(receivers, 'or')}"] if receivers else []
        can = f"I can {_listed([*uses, *passes], 'or')}." if uses or passes else "I have no tool to use."
        if self._passed or self._settled or shared(self._topic, self._profiles[OWN]):
            return f"{_name(self._agent)} here. {can} A real model would answer you in its own words."
        return f"I do not know which agent or tool that is for. {can} What is it about?"

    def _reported(self, result: ToolResult) -> str:
        tool = next((each for each in self._request.tools if each.name == result.name), None)
        text = _plain(result).rstrip(".") or "nothing"
        if tool is not None and tool.delegate:
            return f"{_name(tool.receivers[0])} {'says' if result.ok else 'could not help'}: {text}."
        what = _words(result.name)
        return f"I used {what}: {text}." if result.ok else f"I tried {what}, and it did not work: {text}."


def _last_user(messages: Sequence[Message], before: int) -> int:
    return next((n for n in range(before - 1, -1, -1) if isinstance(messages[n], User)), -1)


def _variables(context: RunContext | None) -> Mapping[str, Any]:
    """The context variables that this agent may see."""
    if context is None:
        return {}
    variables, handed = original(context, "context"), context.handed
    return select_variables(variables, handed.include, handed.exclude) if handed else variables


def _plain(result: ToolResult) -> str:
    """The text of a result; of a delegate's result only the answer or the error."""
    try:
        answer = msgspec.json.decode(result.text, type=DelegateResult)
    except msgspec.DecodeError:
        return result.text.strip()
    return (answer.response or answer.error).strip()


def _about(tool: ToolDefinition) -> str:
    return " ".join([tool.name, tool.description, *tool.parameters.get("properties", ())])


def _line(tool: ToolDefinition, receiver: str) -> str:
    """The part of a handoff tool's description that is about a receiver."""
    if is_generic(tool):
        return " ".join(re.findall(rf"^- {re.escape(receiver)}: (.*?)(?=^- |\Z)", tool.description, re.M | re.S))
    return tool.description.partition(". ")[2]  # its first sentence says what the call does


def _listed(names: Sequence[str], last: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _name(agent: str) -> str:
    return agent[:1].upper() + _words(agent[1:])
