"""OfflineModel: a model without network or key, whose replies follow from the request alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, assert_never

from changeover.messages import Call, Reply, ToolResult
from changeover.models.offline_choice import Answer, AskFor, Choice, HandOver, Use, choose, meant, own_line
from changeover.models.offline_request import ABOUT, MARK, Reading, read, told
from changeover.relay.ports import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.routing.words import words

QUOTED, DESCRIBED = 100, 160
THANKS = re.compile(r"\b(?:thanks|thank you|cheers)\b", re.I)
AS_I = ((r"\bYou are\b", "I am"), (r"\b[Yy]our\b", "my"), (r"^You\b", "I"))


def hand_over(reading: Reading, choice: HandOver) -> str:
    """What stands beside a handoff; a declared one gives it to the receiver as its message."""
    return f"{_name(choice.receiver)} takes over: {_quoted(reading)}. {MARK}"


def ask_for(choice: AskFor) -> str:
    """Ask for what a function still needs."""
    needed = _listed([f"the {name.replace('_', ' ')}" for name in choice.missing])
    goal = f"pass you on to {_name(choice.tool.receivers[0])}" if choice.tool.receivers else "look into that"
    return f"I can {goal}, but I need to know more first: what is {needed}? {MARK}"


def answer(reading: Reading, understood: bool) -> str:
    """Say what was found, or what this agent is for; ask back if the words mean nothing here."""
    if reading.results:
        return f"{' '.join(_reported(reading, result) for result in reading.results)} {MARK}"
    if understood or reading.handed or reading.settled:
        lead = f"{_name(reading.agent)} here, about {_quoted(reading)}. {_purpose(reading)}"
        return f"{lead}{'' if _works(reading) else _company(reading)} {MARK}"
    if THANKS.search(reading.topic):
        return f"You are welcome. {_name(reading.agent)} is still here if there is more. {MARK}"
    lead = f"{_name(reading.agent)} here." if not words(reading.topic) else f"I cannot make out {_quoted(reading)}."
    return f"{lead} {_purpose(reading)}{_company(reading)} {ABOUT}"


def _reported(reading: Reading, result: ToolResult) -> str:
    asked = next((tool.receivers[0] for tool in reading.tools if tool.name == result.name and tool.delegate), "")
    how = f"asked {asked}" if asked else f"used {result.name.replace('_', ' ')}"
    said = told(result)
    if not result.ok:
        return _ended(f"I {how}, and it did not work: {said or 'no reason was given'}")
    return _ended(f"I {how}: {said or 'there is no answer'}")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _works(reading: Reading) -> bool:
    """Whether this agent does more than to send people on."""
    return reading.handed or reading.settled or any(not tool.receivers for tool in reading.tools)


def _purpose(reading: Reading) -> str:
    """The first sentence of the agent's instructions, or of its description, as it would say it of itself."""
    about = reading.instructions.strip() or own_line(reading)
    first = re.split(r"(?<=[.!?])\s|\n", about, maxsplit=1)[0].rstrip(".!?")
    if not first:
        return "Tell me more, and I will see what I can do."
    mine = _cut(first, DESCRIBED)
    for pattern, instead in AS_I:
        mine = re.sub(pattern, instead, mine)
    return f"{mine}." if mine.startswith("I ") else f"My task: {mine[0].lower()}{mine[1:]}."


def _company(reading: Reading) -> str:
    others = dict.fromkeys(name for tool in reading.tools if not tool.delegate for name in tool.receivers)
    names = [name for name in others if name != reading.agent]
    return f" I can also pass you on to {_listed(names, 'or')}." if names else ""


def _quoted(reading: Reading) -> str:
    return f"“{_cut(' '.join(reading.topic.split()), QUOTED)}”"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _listed(names: Sequence[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _name(agent: str) -> str:
    return agent[:1].upper() + agent[1:].replace("-", " ").replace("_", " ")


class OfflineModel:
    """Picks a handoff, a tool or an answer by comparing the user's words with what agents and tools are for.

    It understands nothing: it is for trying a team out, for demos and for tests of the way work takes. Every text it
    writes ends with `(offline)`. On the same words it hands over once, calls each tool at most once, and then answers.
    """

    async def reply(self, request: Request) -> Reply:
        """The reply, by the request alone."""
        reading = meant(read(request))
        return _reply(request, reading, choose(reading))

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply word by word, then the same reply whole."""
        reply = await self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.text):
            yield TextDelta(word, request.agent, request.conversation, request.command, request.attempt)
            await asyncio.sleep(0)  # whoever reads along gets the word before the next one comes
        yield reply


def _reply(request: Request, reading: Reading, choice: Choice) -> Reply:
    match choice:
        case HandOver(tool=tool, args=args):
            return Reply(text=hand_over(reading, choice), calls=_calls(request, [(tool, args)]))
        case Use(calls=calls):
            return Reply(calls=_calls(request, calls))
        case AskFor():
            return Reply(text=ask_for(choice))
        case Answer(understood=understood):
            return Reply(text=answer(reading, understood))
        case _:
            assert_never(choice)


def _calls(request: Request, calls: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Call, ...]:
    # A command has one reply, so its id makes the ids of its calls unique.
    return tuple(Call(f"call_{request.command}_{index}", name, args) for index, (name, args) in enumerate(calls))
