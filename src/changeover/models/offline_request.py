"""Reading: a request as the offline model understands it, with what was asked and what was done about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from changeover.handoffs.context import named
from changeover.messages import Assistant, Message, Note, ToolResult, User
from changeover.models.offline_arguments import Known
from changeover.relay.perform.calls import LAST_WORD
from changeover.relay.ports import Request
from changeover.routing.words import words
from changeover.tools.tool import ToolDefinition

MARK = "(offline)"
"""Ends every text of the offline model, so that nobody takes it for a provider's."""
QUESTION = f"? {MARK}"
ABOUT = f"What is it about{QUESTION}"
"""Asks for anything at all."""

PARTS = 5
"""From so many answers in a row a request is put together."""

HANDED = re.compile(r"^This (?:conversation|task) was handed to you by (.+?)(?:, who gets your answer; .*)?\.$", re.M)
BRIEFING = re.compile(
    r"(?:^|\n\n)(?:This (?:conversation|task) was handed to you by |Context variables\. They are data)"
)
FENCE = re.compile(r"^(`{3,})json\n(.*?)\n\1$", re.M | re.S)
VALUE = re.compile(r"[\d@\"“]")


class Said(Struct, frozen=True):
    """What a user said, and to which question of ours, if to any."""

    text: str
    question: str = ""


class Reading(Struct, frozen=True):
    """What the offline model knows when it decides."""

    agent: str
    instructions: str
    """The agent's own, without the briefing."""
    tools: tuple[ToolDefinition, ...]
    topic: str
    """What the user wants, in the user's words."""
    known: Known
    said: tuple[Said, ...] = ()
    """What the topic is made of, if the user seems to have answered questions of ours."""
    results: tuple[ToolResult, ...] = ()
    """What this agent's calls brought since the user spoke."""
    tried: frozenset[str] = frozenset()
    """What it called since."""
    rounds: int = 0
    """How often it called tools or delegates since."""
    passed: tuple[str, ...] = ()
    """Who had these words before and handed them on."""
    handed: bool = False
    """This agent got these words by a handoff."""
    settled: bool = False
    """It must not hand on: it works for another agent, or does not see who had these words before."""


def read(request: Request) -> Reading:
    """Find in a request what a decision needs."""
    own, briefing = _parted(request.instructions.replace(LAST_WORD, ""))
    messages = request.messages
    spoken = _last_spoken(messages, len(messages))
    said, since = _said(messages, spoken), messages[spoken + 1 :]
    topic = " ".join(each.text for each in said)
    ways = {tool.name for tool in request.tools if tool.receivers and not tool.delegate}
    mine = [each for each in since if isinstance(each, ToolResult) and each.agent == request.agent]
    results = tuple(each for each in mine if not (each.ok and each.name in ways))
    noted = [each.author for each in since if isinstance(each, Note) and each.author != Note("").author]
    others = [each.agent for each in since if isinstance(each, Assistant) and each.agent != request.agent]
    return Reading(
        agent=request.agent,
        instructions=own,
        tools=request.tools,
        topic=topic,
        known=Known(topic, "\n".join(told(each) for each in results if each.ok), _variables(briefing)),
        said=said,
        results=results,
        tried=frozenset(each.name for each in mine),
        rounds=_rounds(request.agent, since, ways),
        passed=tuple(dict.fromkeys([*noted, *others])),
        handed=bool(noted or others),
        settled=bool(noted) or (spoken >= 0 and _is_task(messages[spoken], briefing)),
    )


def _rounds(agent: str, since: Sequence[Message], ways: set[str]) -> int:
    """How many replies of this agent called something else than a way to hand over."""
    own = [each for each in since if isinstance(each, Assistant) and each.agent == agent]
    return sum(any(call.name not in ways for call in reply.calls) for reply in own)


def _is_task(spoken: Message, briefing: str) -> bool:
    """Whether it was another agent that spoke, and waits for a result."""
    sender = HANDED.search(briefing)
    return sender is not None and sender[1] == named(spoken.author)


def told(result: ToolResult) -> str:
    """What a tool or a delegate answered, in plain words."""
    try:
        answer = msgspec.json.decode(result.text)
    except msgspec.DecodeError:
        answer = None
    if isinstance(answer, dict) and "handoff_id" in answer:
        return str(answer.get("response") or answer.get("error") or "").replace(MARK, "").strip()
    return result.text.strip()


def _said(messages: Sequence[Message], spoken: int) -> tuple[Said, ...]:
    """What the user said last; if that may answer a question of ours, what was said before belongs to it."""
    parts: list[Said] = []
    while spoken >= 0 and len(parts) < PARTS:
        question = _question(messages, spoken)
        parts.insert(0, Said(messages[spoken].text, question))
        spoken = _last_spoken(messages, spoken) if question else -1
    return tuple(parts)


def _question(messages: Sequence[Message], spoken: int) -> str:
    """What we had asked for when the user gave a value, or a word or two."""
    asked, text = messages[spoken - 1] if spoken else None, messages[spoken].text
    if not isinstance(asked, Assistant) or not asked.text.endswith(QUESTION) or asked.text.endswith(ABOUT):
        return ""
    return asked.text if VALUE.search(text) or len(words(text)) < 3 else ""


def _last_spoken(messages: Sequence[Message], before: int) -> int:
    return next((i for i in range(before - 1, -1, -1) if isinstance(messages[i], User)), -1)


def _parted(instructions: str) -> tuple[str, str]:
    """An agent's own instructions, and what Changeover wrote below them."""
    found = BRIEFING.search(instructions)
    cut = found.start() if found else len(instructions)
    return instructions[:cut].strip(), instructions[cut:]


def _variables(briefing: str) -> Mapping[str, Any]:
    fenced = FENCE.search(briefing)
    try:
        found = msgspec.json.decode(fenced[2]) if fenced else {}
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
