"""The effects that pack a receiver's context by its strategy, and fetch stored messages for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from changeover.agent.moves import misfit_words
from changeover.errors import ModelError
from changeover.facts import Mode
from changeover.handoffs.briefing import cut_part, too_large
from changeover.handoffs.reference import (
    SCHEME,
    Document,
    body_of,
    cut,
    overview,
    read_body,
    read_section,
    search,
    sections_of,
)
from changeover.handoffs.strategies import FETCH, Chapter, PackedContext, Recent
from changeover.handoffs.template import render
from changeover.handoffs.tokens import count, weight
from changeover.ids import context_id, root_of
from changeover.messages import Note, Reply, User, copied_messages
from changeover.relay.commands import FetchContext, PackContext
from changeover.relay.events import CallRefused, ContextPacked, ToolFinished
from changeover.relay.perform.callbacks import TROUBLE, called, in_thread, let_go, within, words_of
from changeover.relay.perform.judge import consult
from changeover.relay.ports import World
from changeover.relay.sanitize import text_of
from changeover.routing.match import rank
from changeover.tools.tool import ToolDefinition

T = TypeVar("T")
CALL_TIMEOUT = 60.0
"""Seconds that the user's own strategy or briefing may take."""


class PackEffects:
    """The effects that the strategy of one command may use."""

    def __init__(self, world: World, command: PackContext) -> None:
        self._world, self._command = world, command

    async def ask_model(self, instructions: str, text: str, timeout: float) -> Reply:
        world, command = self._world, self._command
        handover = command.handover
        model = world.helper or world.models.get(handover.sender) or world.models.get(handover.receiver)
        if model is None:
            raise ModelError("no model can write the summary: the team has no helper_model")
        where = (command.conversation, command.id)
        return await consult(model, (instructions, text), where, timeout, command.turn)

    async def store(self, body: str, expires: float | None) -> str:
        contexts, now, until = self._world.contexts, self._world.clock.now(), None
        if contexts is None:
            raise ValueError("the team has no store to keep the messages in")
        if expires is not None:
            until = now + expires
            await contexts.sweep(now)  # a writer of texts that expire also removes the expired ones
        id = context_id(body)
        await contexts.put(root_of(self._command.conversation), id, body, until)
        return id

    async def run(self, work: Callable[[], T]) -> T:
        result: T = await in_thread(work)
        return result

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await within(CALL_TIMEOUT, partial(called, function, *args))


async def pack_context(world: World, command: PackContext) -> ContextPacked:
    """What the strategy made; if it failed, the error, and the receiver gets the last messages."""
    offer, strategy, effects = command.offer, command.strategy, PackEffects(world, command)
    event = ContextPacked(offer.call, command.task, strategy.logged_as)
    try:
        packed = await strategy.pack(command.handover, effects)
        if packed.messages and offer.mode is Mode.TRANSFER:
            return replace(event, messages=packed.messages, after=weight(*packed.messages))
        packed = _storable(packed)
        briefing, left_out = await _briefing(command, packed, effects)
    except TROUBLE as error:
        let_go(error)
        return replace(event, strategy=Recent.name, after=command.fallback, error=words_of(error))
    return replace(
        event,
        after=_weight(command, briefing),
        briefing=briefing,
        chapter=packed.chapter,
        covered=command.covered if packed.chapter else 0,
        retold=strategy.retells,
        usage=packed.usage,
        left_out=left_out,
    )


def _storable(packed: PackedContext) -> PackedContext:
    """The packed context with facts that every store can keep."""
    if packed.chapter is None:
        return packed
    facts = tuple(map(text_of, packed.chapter.facts))
    return replace(packed, chapter=replace(packed.chapter, facts=facts))


async def _briefing(command: PackContext, packed: PackedContext, effects: PackEffects) -> tuple[str, Chapter | None]:
    """The text that the receiver is told, and what did not fit into it."""
    brief = replace(command.brief, story=packed.text or command.brief.story)
    if command.strategy.retells:
        chapters = command.handover.chapters
        brief = replace(brief, chapters=(*chapters, packed.chapter) if packed.chapter else chapters)
    if packed.messages:
        brief = replace(brief, recent_messages=packed.messages)
    if isinstance(command.briefing, str):
        parts, left_out = await _fitting(command, brief.parts(), effects)
        return text_of(render(command.briefing, parts)), left_out
    brief = replace(brief, recent_messages=copied_messages(brief.recent_messages))
    text = await effects.call(command.briefing, brief)
    if not isinstance(text, str):
        raise TypeError(f"a briefing must be a text, not {type(text).__name__}")
    return text_of(text), None


async def _fitting(
    command: PackContext, parts: dict[str, str], effects: PackEffects
) -> tuple[dict[str, str], Chapter | None]:
    """The parts of a briefing, of which the largest are cut and stored if all do not fit."""
    if command.room is None:
        return parts, None
    whole, most = too_large(parts, command.room)
    if not whole:
        return parts, None
    document = Document(tuple(map(text_of, whole.values())))
    ref = f"{SCHEME}{await effects.store(body_of(document), None)}"
    cut = {name: cut_part(name, text, most, ref) for name, text in whole.items()}
    return {**parts, **cut}, Chapter(ref=ref, sections=sections_of(document), messages=len(whole))


def _weight(command: PackContext, briefing: str) -> int:
    """Number of tokens that the receiver gets."""
    handover = command.handover
    if command.offer.mode is Mode.DELEGATE:
        return count(briefing) + count(handover.message or handover.request)
    return weight(User(handover.request), Note(briefing, handover.sender))


MOST = 2_000
"""Largest answer in tokens for a section that was asked for by name."""
FOUND = 800
"""Largest answer in tokens for a query; the best passages come first."""

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
    """Read the section or the query that the agent asked for, or refuse it."""
    args = command.call.args
    if wrong := _misfit(args):
        return CallRefused(command.id, command.task, misfit_words(FETCH, wrong), "arguments")
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
    text = found or f"nothing in {ref} fits {query!r}; try other words"
    return ToolFinished(command.id, command.task, text, read_only=True)


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
    """The text of a section, a query or an overview; None if there is no such section."""
    if section:
        text = read_section(document, section)
        if text is None or not query:
            return None if text is None else cut(text, MOST)
        document = Document(tuple(text.splitlines()))
    return search(document, query, _ranked, FOUND) if query else overview(document, MOST)


def _ranked(passages: Sequence[str], query: str) -> list[int]:
    """Indexes of the passages that match the query, best first."""
    return [int(index) for index, _ in rank(query, {str(index): text for index, text in enumerate(passages)})]
