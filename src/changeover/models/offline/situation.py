"""Situation: a request as the offline model reads it: what the user wants, and what was done about it so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from changeover.copies import original
from changeover.handoffs.context import select_variables
from changeover.messages import Assistant, Message, Note, ToolResult, User
from changeover.models.offline.arguments import Known
from changeover.relay.ports import Request
from changeover.routing.words import words
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

MARK = "(offline)"
"""Ends every text of the offline model, so that readers do not take it for a provider's."""
QUESTION = f"? {MARK}"
OPEN_QUESTION = f"What is it about{QUESTION}"

MOST_PARTS = 5
"""A topic is joined from at most this many messages of the user."""

VALUE = re.compile(r"[\d@\"“]")


class UserText(Struct, frozen=True):
    """A message of the user, with the question of the offline model that it answers, if it answers one."""

    text: str
    question: str = ""


class Situation(Struct, frozen=True):
    """The facts on which the offline model decides."""

    agent: str
    instructions: str
    """The agent's own instructions, without the briefing."""
    tools: tuple[ToolDefinition, ...]
    topic: str
    """What the user wants, in the user's words."""
    known: Known
    user_texts: tuple[UserText, ...] = ()
    """The messages that the topic is joined from, oldest first."""
    results: tuple[ToolResult, ...] = ()
    """The results of this agent's calls since the user's last message."""
    tried: frozenset[str] = frozenset()
    """The names that this agent called since then."""
    rounds: int = 0
    """How many replies of this agent called tools or delegates since then."""
    passed: tuple[str, ...] = ()
    """The agents that had this topic before and handed it on."""
    handed: bool = False
    """True if this agent got the topic by a handoff."""
    settled: bool = False
    """True if it must not hand on: another agent waits for its result, or it cannot see who had the topic before."""


def read(request: Request) -> Situation:
    """Derive the situation from a request."""
    own = request.instructions if request.own_instructions is None else request.own_instructions
    messages = original(request, "messages")
    last = _last_user(messages, len(messages))
    user_texts, since = _user_texts(messages, last), messages[last + 1 :]
    topic = " ".join(each.text for each in user_texts)
    transfers = {tool.name for tool in request.tools if tool.receivers and not tool.delegate}
    mine = [each for each in since if isinstance(each, ToolResult) and each.agent == request.agent]
    results = tuple(each for each in mine if not (each.ok and each.name in transfers))
    noted = [each.author for each in since if isinstance(each, Note) and each.author != Note("").author]
    others = [each.agent for each in since if isinstance(each, Assistant) and each.agent != request.agent]
    return Situation(
        agent=request.agent,
        instructions=own.strip(),
        tools=request.tools,
        topic=topic,
        known=Known(topic, "\n".join(plain_result(each) for each in results if each.ok), _variables(request.context)),
        user_texts=user_texts,
        results=results,
        tried=frozenset(each.name for each in mine),
        rounds=_rounds(request.agent, since, transfers),
        passed=tuple(dict.fromkeys([*noted, *others])),
        handed=bool(noted or others),
        settled=bool(noted) or (last >= 0 and _is_task(messages[last], request.context)),
    )


def _rounds(agent: str, since: Sequence[Message], transfers: set[str]) -> int:
    """Count the replies of this agent that called something other than a handoff."""
    own = [each for each in since if isinstance(each, Assistant) and each.agent == agent]
    return sum(any(call.name not in transfers for call in reply.calls) for reply in own)


def _is_task(message: Message, context: RunContext | None) -> bool:
    """True if the message is a task from the agent that handed over, which waits for the result."""
    return context is not None and context.handed is not None and context.handed.sender == message.author


def _variables(context: RunContext | None) -> Mapping[str, Any]:
    """The context variables that this agent may see."""
    if context is None:
        return {}
    handed = context.handed
    return select_variables(context.variables, handed.include, handed.exclude) if handed else context.variables


def plain_result(result: ToolResult) -> str:
    """The text of a result; of a delegate's result only the answer or the error."""
    try:
        answer = msgspec.json.decode(result.text)
    except msgspec.DecodeError:
        answer = None
    if isinstance(answer, dict) and "handoff_id" in answer:
        return str(answer.get("response") or answer.get("error") or "").replace(MARK, "").strip()
    return result.text.strip()


def _user_texts(messages: Sequence[Message], last: int) -> tuple[UserText, ...]:
    """The user's last message, preceded by earlier ones as long as each seems to answer a question of this model."""
    parts: list[UserText] = []
    while last >= 0 and len(parts) < MOST_PARTS:
        question = _question(messages, last)
        parts.insert(0, UserText(messages[last].text, question))
        last = _last_user(messages, last) if question else -1
    return tuple(parts)


def _question(messages: Sequence[Message], index: int) -> str:
    """The question before this message, if the message looks like its answer: a value, or at most two words."""
    before, text = messages[index - 1] if index else None, messages[index].text
    if not isinstance(before, Assistant) or not before.text.endswith(QUESTION) or before.text.endswith(OPEN_QUESTION):
        return ""
    return before.text if VALUE.search(text) or len(words(text)) < 3 else ""


def _last_user(messages: Sequence[Message], before: int) -> int:
    return next((i for i in range(before - 1, -1, -1) if isinstance(messages[i], User)), -1)
