"""How the offline model speaks: plain sentences in the agent's voice, each with its mark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from changeover.messages import ToolResult
from changeover.models.offline_choice import AskFor, HandOver, own_line
from changeover.models.offline_request import ABOUT, MARK, Reading, told
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
