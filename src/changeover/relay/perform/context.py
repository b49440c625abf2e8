"""The effects that pack a context for a receiver (summary, reference, custom code) and fetch what was left out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from changeover.errors import ModelError
from changeover.facts import Mode, Usage
from changeover.handoffs.briefing import briefed_by
from changeover.handoffs.reference import (
    SCHEME,
    Document,
    body_of,
    cut,
    document_of,
    overview,
    read_body,
    read_section,
    search,
    sections_of,
)
from changeover.handoffs.strategies import FETCH, PURE, Chapter, Handover, Recent, Reference, Summary, name_of
from changeover.handoffs.tokens import count, weight
from changeover.ids import context_id, root_of
from changeover.messages import Message, Note, User
from changeover.relay.commands import FetchContext, PackContext
from changeover.relay.events import CallRefused, ContextPacked, ToolFinished
from changeover.relay.perform.callbacks import TROUBLE, called, in_thread, let_go, words_of
from changeover.relay.perform.judge import consult
from changeover.relay.ports import World
from changeover.relay.sanitize import text_of
from changeover.routing.match import rank
from changeover.tools.tool import ToolDefinition

SHARE, LEAST = 8, 60
"""Which part of what was said is kept word for word at most, in tokens; of little, so many in any case."""
PATIENCE = 60.0
"""For how many seconds the user's own code is awaited."""


class Made(msgspec.Struct, frozen=True):
    """What a strategy made."""

    chapter: Chapter | None = None
    told: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage | None = None


async def pack_context(world: World, command: PackContext) -> ContextPacked:
    """What the receiver gets; if that cannot be made, why it gets the last messages instead."""
    offer = command.offer
    packed = ContextPacked(offer.call, command.task, name_of(command.strategy))
    try:
        made = await _made(world, command)
        if made.messages and offer.mode is Mode.TRANSFER:
            return replace(packed, messages=made.messages, after=weight(*made.messages))
        briefing = text_of(await _briefing(command, made))
    except TROUBLE as error:
        let_go(error)
        return replace(packed, strategy=Recent.name, after=command.fallback, error=words_of(error))
    covered = command.covered if made.chapter else 0
    return replace(
        packed,
        after=_weight(command, briefing),
        briefing=briefing,
        chapter=made.chapter,
        covered=covered,
        retold=isinstance(command.strategy, Summary | Reference),
        usage=made.usage,
    )


async def _made(world: World, command: PackContext) -> Made:
    strategy = command.strategy
    if isinstance(strategy, PURE) or (isinstance(strategy, Summary | Reference) and not _is_news(command.handover)):
        return Made()
    if isinstance(strategy, Summary):
        return await _summed_up(world, command, strategy)
    if isinstance(strategy, Reference):
        return Made(await _kept(world, command, strategy))
    # In this task: one of its own that asks for the end of the process would get it.
    async with asyncio.timeout(PATIENCE):
        given = await called(strategy, command.handover)
    if isinstance(given, str):
        return Made(told=given)
    return Made(messages=_checked(given))


def _is_news(handover: Handover) -> bool:
    """Whether anything was said beside the request and the sender's message, which the receiver reads anyway."""
    known = {handover.request, handover.message}
    return any(
        not isinstance(each, User | Note) or each.text not in known or (isinstance(each, User) and each.files)
        for each in handover.messages
    )


async def _summed_up(world: World, command: PackContext, strategy: Summary) -> Made:
    from changeover.handoffs.summary import VERSION, fitted, prompt_of

    handover = command.handover
    model = world.helper or world.models.get(handover.sender) or world.models.get(handover.receiver)
    if model is None:
        raise ModelError("nobody can sum up: the team has no helper_model")
    prompt = prompt_of(handover, strategy.needs, strategy.max_tokens)
    where = (command.conversation, command.id)
    reply = await consult(model, prompt, where, strategy.timeout, command.turn)
    if not (summary := fitted(text_of(reply.text), strategy.max_tokens)):
        raise ModelError("the summary is empty")
    chapter = replace(await _kept(world, command, strategy), text=summary, prompt=VERSION)
    return Made(chapter, usage=reply.usage)


async def _kept(world: World, command: PackContext, strategy: Summary | Reference) -> Chapter:
    """What was said, where the receiver can read it, and the facts of it."""
    messages, facts = command.handover.messages, await _facts(command, strategy.max_facts)
    document = document_of(messages)
    body = body_of(document)
    if (size := len(body.encode())) > strategy.max_bytes:
        if isinstance(strategy, Summary):
            return Chapter(facts=facts, messages=len(messages))  # the summary has to do
        raise ValueError(f"what was said takes {size:,} bytes, and max_bytes={strategy.max_bytes:,}")
    if world.contexts is None:
        raise ValueError("there is no store to keep it in")
    root, id = root_of(command.conversation), context_id(body)
    now, until = world.clock.now(), None
    if strategy.expires is not None:
        until = now + strategy.expires
        await world.contexts.sweep(now)  # whoever keeps something for a time takes away what has had its time
    await world.contexts.put(root, id, body, until)
    return Chapter("", facts, f"{SCHEME}{id}", sections_of(document), len(messages))


async def _facts(command: PackContext, most: int) -> tuple[str, ...]:
    """What is kept word for word: a share of what was said, unless it is told by the request or an earlier chapter."""
    from changeover.handoffs.essentials import essentials

    handover = command.handover
    room = min(most, max(LEAST, weight(*handover.messages) // SHARE))
    # Beside the loop: of a long conversation that takes a while.
    facts = await in_thread(partial(essentials, handover.messages, room))
    told = {fact for chapter in handover.chapters for fact in chapter.facts}
    new = [fact for fact in facts if fact not in told and fact.partition(": ")[2] not in handover.request]
    return tuple(map(text_of, new))


def _checked(given: Any) -> tuple[Message, ...]:
    """The messages that a strategy of the user's gave, if a log can keep them."""
    if not isinstance(given, Sequence) or not all(isinstance(each, Message) for each in given):
        raise TypeError(f"a strategy must give a text or a list of messages, not {type(given).__name__}")
    if not given:
        raise ValueError("the strategy left nothing")
    return msgspec.json.decode(msgspec.json.encode(list(given)), type=tuple[Message, ...])


async def _briefing(command: PackContext, made: Made) -> str:
    """What the receiver is told, in words."""
    chapters = (*command.handover.chapters, made.chapter) if made.chapter else command.handover.chapters
    brief = replace(command.brief, story=made.told or command.brief.story)
    if isinstance(command.strategy, Summary | Reference):
        brief = replace(brief, chapters=chapters)
    if made.messages:
        brief = replace(brief, recent_messages=made.messages)
    if isinstance(command.briefing, str):
        return briefed_by(command.briefing, brief)
    async with asyncio.timeout(PATIENCE):
        text = await called(command.briefing, brief)
    if not isinstance(text, str):
        raise TypeError(f"a briefing must be a text, not {type(text).__name__}")
    return text


def _weight(command: PackContext, briefing: str) -> int:
    """How many tokens the receiver gets."""
    handover = command.handover
    if command.offer.mode is Mode.DELEGATE:
        return count(briefing) + count(handover.message or handover.request)
    return weight(User(handover.request), Note(briefing, handover.sender))


MOST = 2_000
"""How many tokens an answer has at most that was asked for by name."""
FOUND = 800
"""How many one has that was looked for: what fits best comes first."""

DEFINITION = ToolDefinition(
    name=FETCH,
    description="Read what was said before you took over. Give a section, or say what you look for in a query; without"
    " both you get an overview.",
    parameters={
        "type": "object",
        "properties": {
            "ref": {"type": "string", "description": f"The address that you were given, {SCHEME}…"},
            "section": {"type": "string", "description": "A section by its name, for example: messages 1-20"},
            "query": {"type": "string", "description": "Words that what you look for has in it."},
        },
        "required": ["ref"],
        "additionalProperties": False,
    },
)


async def fetch_context(world: World, command: FetchContext) -> ToolFinished | CallRefused:
    """What the agent asked for, or why it cannot have it."""
    args = command.call.args
    if wrong := _misfit(args):
        return CallRefused(command.id, command.task, f"the arguments of {FETCH} do not fit: {wrong}", "arguments")
    ref, section, query = (str(args.get(name) or "") for name in ("ref", "section", "query"))
    id = ref.removeprefix(SCHEME)
    kept = await world.contexts.get(command.root, id) if world.contexts else None
    if kept is None:
        return _refused(command, f"there is no {ref} in this conversation; use an address as it was given to you")
    if kept.expires_at is not None and kept.expires_at <= world.clock.now():
        return _refused(command, f"{ref} has expired; go on with what you were told, or ask the user")
    document = read_body(kept.body)
    found = await in_thread(partial(_looked_up, document, section, query))
    if found is None:
        known = ", ".join(sections_of(document))
        return _refused(command, f"there is no section {section!r} in {ref}; its sections: {known}")
    return ToolFinished(command.id, command.task, found or f"nothing in {ref} fits {query!r}; try other words")


def _misfit(args: dict[str, object]) -> str:
    if unknown := args.keys() - DEFINITION.parameters["properties"].keys():
        return f"it takes ref, section and query, not {', '.join(sorted(unknown))}"
    wrong = [name for name, value in args.items() if value is not None and not isinstance(value, str)]
    if wrong:
        return f"{', '.join(wrong)}: give a text"
    return "" if args.get("ref") else f"ref: give an address, {SCHEME}…"


def _refused(command: FetchContext, why: str) -> ToolFinished:
    return ToolFinished(command.id, command.task, why, ok=False)


def _looked_up(document: Document, section: str, query: str) -> str | None:
    """What is found; None if there is no such section."""
    if section:
        text = read_section(document, section)
        if text is None or not query:
            return None if text is None else cut(text, MOST)
        document = Document(tuple(text.splitlines()))
    return search(document, query, _ranked, FOUND) if query else overview(document, MOST)


def _ranked(passages: Sequence[str], query: str) -> list[int]:
    """The passages that share something telling with the query, the best first."""
    return [int(index) for index, _ in rank(query, {str(index): text for index, text in enumerate(passages)})]
