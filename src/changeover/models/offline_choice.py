"""Choice: what the offline model does about a request; hand over, call a tool, ask for a value, or answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.models.offline_arguments import Known, fill, looks_up
from changeover.models.offline_request import Reading, Said
from changeover.routing.match import rank, shared
from changeover.routing.words import words
from changeover.tools.tool import ToolDefinition

CLEARLY = 1.2
"""How much better another agent must fit than this one."""
HOPS = 3
"""So often the same words are handed on; then whoever has them answers."""
ROUNDS = 3
AT_ONCE = 3
BESIDE = 0.4
"""What is called beside the best must fit at least so well in comparison."""
TELLING = 3
"""So many words beside values make a request, if none of them is of what we asked for."""
OWN = "own"


class HandOver(Struct, frozen=True):
    """Another agent fits better."""

    receiver: str
    tool: str
    args: dict[str, Any]


class Use(Struct, frozen=True):
    """Call tools or delegates."""

    calls: tuple[tuple[str, dict[str, Any]], ...]


class AskFor(Struct, frozen=True):
    """The user has to say more before this function can be called."""

    tool: ToolDefinition
    missing: tuple[str, ...]


class Answer(Struct, frozen=True):
    """Say what is known; `understood` if the words have to do with anything here."""

    understood: bool


Choice: TypeAlias = HandOver | Use | AskFor | Answer


class Way(Struct, frozen=True):
    """A call that is open to the agent, and what it is for."""

    tool: ToolDefinition
    about: str
    receiver: str = ""


def meant(reading: Reading) -> Reading:
    """The same, if the user answered us; else the topic is only what was said since the last request of its own."""
    if len(reading.said) < 2:
        return reading
    profiles = _profiles(reading, *_ways(reading))
    topic = ""
    for said in reading.said:
        topic = f"{topic} {said.text}" if topic and not _is_request(said, topic, profiles) else said.text
    return replace(reading, topic=topic, known=replace(reading.known, words=topic))


def _is_request(said: Said, before: str, profiles: Mapping[str, str]) -> bool:
    """Whether it is about something else than what was said before, and so no answer to our question."""
    now, then = dict(rank(said.text, profiles)), rank(before, profiles)
    if now:
        old = then[0][0] if then else ""
        best, score = next(iter(now.items()))
        return best != old and score > now.get(old, 0.0) * CLEARLY
    telling = [word for word in words(said.text) if not any(sign.isdigit() for sign in word)]
    return len(telling) >= TELLING and not shared(said.text, said.question)


def choose(reading: Reading) -> Choice:
    """The best thing to do, by the words alone."""
    plain, others = _ways(reading)
    profiles = _profiles(reading, plain, others)
    scores = dict(rank(reading.topic, profiles))
    own = scores.pop(OWN, 0.0)
    best = next(iter(scores.items()), None)
    if best is not None and best[1] > own * CLEARLY:
        chosen = _elsewhere(reading, others[int(best[0])], [others[int(id)] for id in scores], plain)
        if chosen is not None:
            return chosen
    delegates = [way for way in others if way.tool.delegate]
    if chosen := _here(reading, plain) or (None if plain else _here(reading, delegates)):
        return chosen
    return Answer(bool(best or own or shared(reading.topic, profiles[OWN])))


def _profiles(reading: Reading, plain: Sequence[Way], others: Sequence[Way]) -> dict[str, str]:
    """What this agent is for, and each way to another."""
    return {OWN: _own(reading, plain)} | {str(index): way.about for index, way in enumerate(others)}


def _elsewhere(reading: Reading, best: Way, ranked: Sequence[Way], plain: Sequence[Way]) -> Choice | None:
    """Somebody else fits better: several may be asked at once, but only one takes over."""
    if best.tool.delegate:
        return _called(reading, _distinct(reading, [way for way in ranked if way.tool.delegate]))
    args, missing = _arguments(reading, best)
    if not missing:
        return HandOver(best.receiver, best.tool.name, args)
    found = _here(reading, plain)
    # A tool may find what is missing.
    return found if isinstance(found, Use) else AskFor(best.tool, tuple(missing))


def _here(reading: Reading, ways: Sequence[Way]) -> Use | AskFor | None:
    """What this agent itself can call, or would call if it knew more."""
    scores = rank(reading.topic, {str(index): way.about for index, way in enumerate(ways)})
    # With one tool, or with words that all of them share, nothing is told by rank: then all that share words count.
    order = [ways[int(id)] for id, score in scores if score >= BESIDE * scores[0][1]] or list(ways)
    fitting = [way for way in order if _fits(reading, way, alone=len(ways) == 1)]
    ready = [way for way in fitting if not _arguments(reading, way)[1]]
    # Beside or after another call, what changes something must have been asked for by its name.
    named = [way for way in ready if looks_up(way.tool.parameters) or _says(reading.topic, way.tool.name)]
    if ready:
        return _called(reading, _distinct(reading, named if reading.rounds or len(ready) > 1 else ready))
    if fitting and not reading.results:
        return AskFor(fitting[0].tool, tuple(_arguments(reading, fitting[0])[1]))
    return None


def _fits(reading: Reading, way: Way, alone: bool) -> bool:
    """Whether the user's words ask for it; if they are only related to it, it must be harmless or plainly meant."""
    found, parameters = shared(reading.topic, way.about), way.tool.parameters
    if _says(reading.topic, way.about):
        return True
    # Plainly meant: there is nothing else to call, and the user said all that it needs.
    meant = alone and parameters.get("required") and not fill(parameters, Known(reading.topic))[1]
    return bool(found and (meant or looks_up(parameters)))


def _says(text: str, about: str) -> bool:
    """Whether a word of it stands there, and not only one that is related to it."""
    return any(not term.startswith("~") for term in shared(text, about))


def _distinct(reading: Reading, ways: Sequence[Way]) -> list[Way]:
    """The best, and each further one that answers to words which none before it does."""
    covered: set[str] = set()
    picked: list[Way] = []
    for way in ways:
        terms = shared(reading.topic, way.about)
        if not terms <= covered and len(picked) < AT_ONCE:
            picked.append(way)
            covered |= terms
    return picked


def _called(reading: Reading, ways: Sequence[Way]) -> Use | None:
    calls = tuple((way.tool.name, _arguments(reading, way)[0]) for way in ways)
    return Use(calls) if calls else None


def _arguments(reading: Reading, way: Way) -> tuple[dict[str, Any], list[str]]:
    args, missing = fill(way.tool.parameters, reading.known)
    if way.receiver and _is_generic(way.tool):
        args["to"] = way.receiver
    return args, [name for name in missing if name not in args]


def _ways(reading: Reading) -> tuple[list[Way], list[Way]]:
    """The tools that may still be called, and the other agents that may still be asked."""
    may_call = reading.rounds < ROUNDS
    plain = [Way(tool, _about(tool)) for tool in reading.tools if not tool.receivers and may_call]
    others = [way for tool in reading.tools if tool.receivers for way in _receivers(reading, tool)]
    return [way for way in plain if _is_new(reading, way)], others


def _is_new(reading: Reading, way: Way) -> bool:
    """Not called yet; once something was called, only what could not be called before."""
    if way.tool.name in reading.tried:
        return False
    return not reading.rounds or bool(fill(way.tool.parameters, Known(reading.known.words))[1])


def _receivers(reading: Reading, tool: ToolDefinition) -> Iterator[Way]:
    if reading.settled or tool.name in reading.tried or (tool.delegate and reading.rounds):
        return
    if not tool.delegate and any(other.delegate and other.name in reading.tried for other in reading.tools):
        return  # whoever asked a delegate is the one to tell what it found
    if not tool.delegate and len(reading.passed) >= HOPS:
        return
    lines = _lines(tool)
    for receiver in tool.receivers:
        if receiver != reading.agent and (tool.delegate or receiver not in reading.passed):
            yield Way(tool, f"{receiver} {receiver} {lines[receiver]}", receiver)


def _lines(tool: ToolDefinition) -> dict[str, str]:
    """What a handoff's or delegate's description says of each receiver."""
    if not _is_generic(tool):
        # Its first sentence says what the call does, not for what.
        receiver = tool.receivers[0]
        head, _, rest = tool.description.partition(". " if ". " in tool.description else ".")
        return {receiver: rest if receiver in head else tool.description}
    names = "|".join(re.escape(name) for name in sorted(tool.receivers, key=len, reverse=True))
    parts = re.split(rf"^- ({names})(?:: |$)", tool.description, flags=re.M)
    return dict.fromkeys(tool.receivers, "") | dict(zip(parts[1::2], parts[2::2], strict=True))


def _is_generic(tool: ToolDefinition) -> bool:
    """The tool that lets the model name the receiver."""
    return not tool.delegate and tool.parameters.get("properties", {}).get("to", {}).get("enum") == list(tool.receivers)


def _own(reading: Reading, plain: Sequence[Way]) -> str:
    """What this agent is for: its instructions but for what they say of others, its line, its tools."""
    others = {name for tool in reading.tools for name in tool.receivers} - {reading.agent}
    clauses = [
        clause
        for clause in re.split(r"[.,;:\n]", reading.instructions)
        if not any(re.search(rf"\b{re.escape(name)}\b", clause, re.I) for name in others)
    ]
    about = [own_line(reading), *(way.about for way in plain)]
    return " ".join([reading.agent, reading.agent, *clauses, *about])


def own_line(reading: Reading) -> str:
    """What the others are told of this agent, if it may start itself afresh."""
    generic = next((tool for tool in reading.tools if tool.receivers and _is_generic(tool)), None)
    return _lines(generic).get(reading.agent, "").strip() if generic else ""


def _about(tool: ToolDefinition) -> str:
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    described = [f"{name} {about.get('description', '')} {about.get('enum', '')}" for name, about in properties.items()]
    return " ".join([tool.name, tool.description, *described])
