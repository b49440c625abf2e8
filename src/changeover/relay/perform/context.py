"""Packing a context as an effect: summed up, kept where it can be fetched, or as the user's own code says."""

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
from changeover.handoffs.chapters import Chapter
from changeover.handoffs.handover import Handover
from changeover.handoffs.reference import SCHEME, body_of, document_of, sections_of
from changeover.handoffs.strategies import PURE, Recent, Reference, Summary, name_of
from changeover.handoffs.tokens import count, weight
from changeover.messages import Message, Note, User
from changeover.relay.commands import PackContext
from changeover.relay.contexts import context_id
from changeover.relay.events import ContextPacked
from changeover.relay.perform.callbacks import called, in_thread
from changeover.relay.performing.consulting import consult
from changeover.relay.performing.mishaps import TROUBLE, let_go, words_of
from changeover.relay.sanitize import text_of
from changeover.relay.world import World

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
    root, id = command.conversation.partition("/")[0], context_id(body)
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
