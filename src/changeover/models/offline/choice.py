"""Choice: what the offline model does next: hand over, call tools, ask the user for a value, or answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.moves import is_generic
from changeover.models.offline.arguments import Known, fill, looks_up
from changeover.models.offline.situation import Situation, UserText
from changeover.routing.match import rank, shared
from changeover.routing.words import words
from changeover.tools.tool import ToolDefinition

CLEARLY = 1.2
"""Another agent must score this many times better than this one to get the topic."""
MOST_HOPS = 3
"""After this many handoffs of one topic, the agent that has it answers."""
MOST_ROUNDS = 3
MOST_CALLS = 3
"""Calls in one reply."""
SHARE_OF_BEST = 0.4
"""A further call must reach this share of the best score."""
REQUEST_WORDS = 3
"""A message with this many words beside values is a new request, unless it shares a word with our question."""
OWN = "own"


class HandOver(Struct, frozen=True):
    """Hand over to an agent that fits better."""

    receiver: str
    tool: str
    args: dict[str, Any]


class Use(Struct, frozen=True):
    """Call tools or delegates."""

    calls: tuple[tuple[str, dict[str, Any]], ...]


class AskFor(Struct, frozen=True):
    """Ask the user for arguments without which this tool cannot be called."""

    tool: ToolDefinition
    missing: tuple[str, ...]


class Answer(Struct, frozen=True):
    """Answer the user; `understood` is False if no agent or tool fits the topic at all."""

    understood: bool


Choice: TypeAlias = HandOver | Use | AskFor | Answer


class Way(Struct, frozen=True):
    """A possible call, with the text that describes it."""

    tool: ToolDefinition
    about: str
    receiver: str = ""


def with_topic(situation: Situation) -> Situation:
    """The same situation, with the user's last new request and the answers that followed it as its topic."""
    if len(situation.user_texts) < 2:
        return situation
    profiles = _profiles(situation, *_ways(situation))
    topic = ""
    for each in situation.user_texts:
        topic = f"{topic} {each.text}" if topic and not _is_request(each, topic, profiles) else each.text
    return replace(situation, topic=topic, known=replace(situation.known, words=topic))


def _is_request(message: UserText, before: str, profiles: Mapping[str, str]) -> bool:
    """True if the message is about something else than the topic before it, so it does not answer our question."""
    now, then = dict(rank(message.text, profiles)), rank(before, profiles)
    if now:
        old = then[0][0] if then else ""
        best, score = next(iter(now.items()))
        return best != old and score > now.get(old, 0.0) * CLEARLY
    content = [word for word in words(message.text) if not any(sign.isdigit() for sign in word)]
    return len(content) >= REQUEST_WORDS and not shared(message.text, message.question)


def choose(situation: Situation) -> Choice:
    """The best choice, by comparing words alone."""
    plain, others = _ways(situation)
    profiles = _profiles(situation, plain, others)
    scores = dict(rank(situation.topic, profiles))
    own = scores.pop(OWN, 0.0)
    best = next(iter(scores.items()), None)
    if best is not None and best[1] > own * CLEARLY:
        chosen = _elsewhere(situation, others[int(best[0])], [others[int(id)] for id in scores], plain)
        if chosen is not None:
            return chosen
    delegates = [way for way in others if way.tool.delegate]
    if chosen := _here(situation, plain) or (None if plain else _here(situation, delegates)):
        return chosen
    return Answer(bool(best or own or shared(situation.topic, profiles[OWN])))


def _profiles(situation: Situation, plain: Sequence[Way], others: Sequence[Way]) -> dict[str, str]:
    """The texts that a topic is ranked against: this agent's own, and one for each way to another agent."""
    return {OWN: _own(situation, plain)} | {str(index): way.about for index, way in enumerate(others)}


def _elsewhere(situation: Situation, best: Way, ranked: Sequence[Way], plain: Sequence[Way]) -> Choice | None:
    """The choice if another agent fits better: several delegates may be asked at once, but one agent takes over."""
    if best.tool.delegate:
        return _called(situation, _distinct(situation, [way for way in ranked if way.tool.delegate]))
    args, missing = _arguments(situation, best)
    if not missing:
        return HandOver(best.receiver, best.tool.name, args)
    found = _here(situation, plain)
    # A tool may find what is missing.
    return found if isinstance(found, Use) else AskFor(best.tool, tuple(missing))


def _here(situation: Situation, ways: Sequence[Way]) -> Use | AskFor | None:
    """The tools that this agent can call, or the question for what the best of them still lacks."""
    scores = rank(situation.topic, {str(index): way.about for index, way in enumerate(ways)})
    # With one tool, or with words that all tools share, all ranks are 0: then every tool that shares words counts.
    order = [ways[int(id)] for id, score in scores if score >= SHARE_OF_BEST * scores[0][1]] or list(ways)
    fitting = [way for way in order if _fits(situation, way, alone=len(ways) == 1)]
    ready = [way for way in fitting if not _arguments(situation, way)[1]]
    # Beside or after another call, the user must have named a tool that may change something.
    named = [way for way in ready if looks_up(way.tool.parameters) or _says(situation.topic, way.tool.name)]
    if ready:
        return _called(situation, _distinct(situation, named if situation.rounds or len(ready) > 1 else ready))
    if fitting and not situation.results:
        return AskFor(fitting[0].tool, tuple(_arguments(situation, fitting[0])[1]))
    return None


def _fits(situation: Situation, way: Way, alone: bool) -> bool:
    """True if the topic names it; if words are only related to it, it must be a lookup or clearly meant."""
    found, parameters = shared(situation.topic, way.about), way.tool.parameters
    if _says(situation.topic, way.about):
        return True
    # Clearly meant: there is nothing else to call, and the user gave every argument.
    meant = alone and parameters.get("required") and not fill(parameters, Known(situation.topic))[1]
    return bool(found and (meant or looks_up(parameters)))


def _says(text: str, about: str) -> bool:
    """True if the texts share a word, and not only related words."""
    return any(not term.startswith("~") for term in shared(text, about))


def _distinct(situation: Situation, ways: Sequence[Way]) -> list[Way]:
    """The best way, and each further one that matches words of the topic which no way before it matches."""
    covered: set[str] = set()
    picked: list[Way] = []
    for way in ways:
        terms = shared(situation.topic, way.about)
        if not terms <= covered and len(picked) < MOST_CALLS:
            picked.append(way)
            covered |= terms
    return picked


def _called(situation: Situation, ways: Sequence[Way]) -> Use | None:
    calls = tuple((way.tool.name, _arguments(situation, way)[0]) for way in ways)
    return Use(calls) if calls else None


def _arguments(situation: Situation, way: Way) -> tuple[dict[str, Any], list[str]]:
    args, missing = fill(way.tool.parameters, situation.known)
    if way.receiver and is_generic(way.tool):
        args["to"] = way.receiver
    return args, [name for name in missing if name not in args]


def _ways(situation: Situation) -> tuple[list[Way], list[Way]]:
    """The tools that may still be called, and the ways to other agents that are still open."""
    may_call = situation.rounds < MOST_ROUNDS
    plain = [Way(tool, _about(tool)) for tool in situation.tools if not tool.receivers and may_call]
    others = [way for tool in situation.tools if tool.receivers for way in _receivers(situation, tool)]
    return [way for way in plain if _is_new(situation, way)], others


def _is_new(situation: Situation, way: Way) -> bool:
    """True if it was not called yet; after a first round, only if it lacked arguments before."""
    if way.tool.name in situation.tried:
        return False
    return not situation.rounds or bool(fill(way.tool.parameters, Known(situation.known.words))[1])


def _receivers(situation: Situation, tool: ToolDefinition) -> Iterator[Way]:
    if situation.settled or tool.name in situation.tried or (tool.delegate and situation.rounds):
        return
    if not tool.delegate and any(other.delegate and other.name in situation.tried for other in situation.tools):
        return  # the agent that asked a delegate reports the result itself
    if not tool.delegate and len(situation.passed) >= MOST_HOPS:
        return
    lines = _lines(tool)
    for receiver in tool.receivers:
        if receiver != situation.agent and (tool.delegate or receiver not in situation.passed):
            yield Way(tool, f"{receiver} {receiver} {lines[receiver]}", receiver)


def _lines(tool: ToolDefinition) -> dict[str, str]:
    """The part of a tool's description that is about each receiver."""
    if not is_generic(tool):
        # Its first sentence says what the call does, not what the receiver is for.
        receiver = tool.receivers[0]
        head, _, rest = tool.description.partition(". " if ". " in tool.description else ".")
        return {receiver: rest if receiver in head else tool.description}
    names = "|".join(re.escape(name) for name in sorted(tool.receivers, key=len, reverse=True))
    parts = re.split(rf"^- ({names})(?:: |$)", tool.description, flags=re.M)
    return dict.fromkeys(tool.receivers, "") | dict(zip(parts[1::2], parts[2::2], strict=True))


def _own(situation: Situation, plain: Sequence[Way]) -> str:
    """The text about this agent: its instructions without the clauses about other agents, its line, its tools."""
    others = {name for tool in situation.tools for name in tool.receivers} - {situation.agent}
    clauses = [
        clause
        for clause in re.split(r"[.,;:\n]", situation.instructions)
        if not any(re.search(rf"\b{re.escape(name)}\b", clause, re.I) for name in others)
    ]
    about = [own_line(situation), *(way.about for way in plain)]
    return " ".join([situation.agent, situation.agent, *clauses, *about])


def own_line(situation: Situation) -> str:
    """This agent's own line in the generic handoff tool, if it has one."""
    generic = next((tool for tool in situation.tools if tool.receivers and is_generic(tool)), None)
    return _lines(generic).get(situation.agent, "").strip() if generic else ""


def _about(tool: ToolDefinition) -> str:
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    described = [f"{name} {about.get('description', '')} {about.get('enum', '')}" for name, about in properties.items()]
    return " ".join([tool.name, tool.description, *described])
