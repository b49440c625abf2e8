"""OfflineModel, and the sentences that it writes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, assert_never

from changeover.messages import Call, Reply, ToolResult
from changeover.models.offline.choice import Answer, AskFor, Choice, HandOver, Use, choose, own_line, with_topic
from changeover.models.offline.situation import MARK, OPEN_QUESTION, Situation, plain_result, read
from changeover.relay.ports import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.routing.words import words

LONGEST_QUOTE, LONGEST_PURPOSE = 100, 160
THANKS = re.compile(r"\b(?:thanks|thank you|cheers)\b", re.I)
FIRST_PERSON = ((r"\bYou are\b", "I am"), (r"\b[Yy]our\b", "my"), (r"^You\b", "I"))


def hand_over(situation: Situation, choice: HandOver) -> str:
    """The text beside a handoff; a declared handoff passes it to the receiver as its message."""
    return f"{_name(choice.receiver)} takes over: {_quoted(situation)}. {MARK}"


def ask_for(choice: AskFor) -> str:
    """A question for the arguments that a call still lacks."""
    needed = _listed([f"the {name.replace('_', ' ')}" for name in choice.missing])
    goal = f"pass you on to {_name(choice.tool.receivers[0])}" if choice.tool.receivers else "look into that"
    return f"I can {goal}, but I need to know more first: what is {needed}? {MARK}"


def answer(situation: Situation, understood: bool) -> str:
    """The results of calls, or the purpose of this agent; a question if the topic means nothing to it."""
    if situation.results:
        return f"{' '.join(_reported(situation, result) for result in situation.results)} {MARK}"
    if understood or situation.handed or situation.settled:
        lead = f"{_name(situation.agent)} here, about {_quoted(situation)}. {_purpose(situation)}"
        return f"{lead}{'' if _works(situation) else _others(situation)} {MARK}"
    if THANKS.search(situation.topic):
        return f"You are welcome. {_name(situation.agent)} is still here if there is more. {MARK}"
    lead = (
        f"{_name(situation.agent)} here." if not words(situation.topic) else f"I cannot make out {_quoted(situation)}."
    )
    return f"{lead} {_purpose(situation)}{_others(situation)} {OPEN_QUESTION}"


def _reported(situation: Situation, result: ToolResult) -> str:
    asked = next((tool.receivers[0] for tool in situation.tools if tool.name == result.name and tool.delegate), "")
    how = f"asked {asked}" if asked else f"used {result.name.replace('_', ' ')}"
    text = plain_result(result)
    if not result.ok:
        return _ended(f"I {how}, and it did not work: {text or 'no reason was given'}")
    return _ended(f"I {how}: {text or 'there is no answer'}")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _works(situation: Situation) -> bool:
    """True if this agent does more than hand on."""
    return situation.handed or situation.settled or any(not tool.receivers for tool in situation.tools)


def _purpose(situation: Situation) -> str:
    """The first sentence of the agent's instructions, or else of its description, in the first person."""
    about = situation.instructions.strip() or own_line(situation)
    first = re.split(r"(?<=[.!?])\s|\n", about, maxsplit=1)[0].rstrip(".!?")
    if not first:
        return "Tell me more, and I will see what I can do."
    mine = _cut(first, LONGEST_PURPOSE)
    for pattern, instead in FIRST_PERSON:
        mine = re.sub(pattern, instead, mine)
    return f"{mine}." if mine.startswith("I ") else f"My task: {mine[0].lower()}{mine[1:]}."


def _others(situation: Situation) -> str:
    receivers = dict.fromkeys(name for tool in situation.tools if not tool.delegate for name in tool.receivers)
    names = [name for name in receivers if name != situation.agent]
    return f" I can also pass you on to {_listed(names, 'or')}." if names else ""


def _quoted(situation: Situation) -> str:
    return f"“{_cut(' '.join(situation.topic.split()), LONGEST_QUOTE)}”"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _listed(names: Sequence[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _name(agent: str) -> str:
    return agent[:1].upper() + agent[1:].replace("-", " ").replace("_", " ")


class OfflineModel:
    """Picks a handoff, a tool or an answer by comparing the user's words with the descriptions of agents and tools.

    It does not understand language: use it to try out a team, for demos, and to test routes. The reply depends on the
    request alone. Every text ends with `(offline)`. For one message of the user an agent hands over at most once and
    calls each tool at most once; then it answers.
    """

    async def reply(self, request: Request) -> Reply:
        """The reply to this request; the same request always gets the same reply."""
        situation = with_topic(read(request))
        return _reply(request, situation, choose(situation))

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply word by word, then the same reply whole."""
        reply = await self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.text):
            yield TextDelta(word, request.agent, request.conversation, request.command, request.attempt)
            await asyncio.sleep(0)  # lets readers of the stream take each word before the next one
        yield reply


def _reply(request: Request, situation: Situation, choice: Choice) -> Reply:
    match choice:
        case HandOver(tool=tool, args=args):
            return Reply(text=hand_over(situation, choice), calls=_calls(request, [(tool, args)]))
        case Use(calls=calls):
            return Reply(calls=_calls(request, calls))
        case AskFor():
            return Reply(text=ask_for(choice))
        case Answer(understood=understood):
            return Reply(text=answer(situation, understood))
        case _:
            assert_never(choice)


def _calls(request: Request, calls: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Call, ...]:
    # Unique, because each command has one reply.
    return tuple(Call(f"call_{request.command}_{index}", name, args) for index, (name, args) in enumerate(calls))
