"""The effects that pack a receiver's context by its strategy, and fetch stored messages for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from changeover.agent.moves import misfit_words
from changeover.errors import ModelError
from changeover.facts import Mode, Usage
from changeover.handoffs.briefing import cut_part, too_large
from changeover.handoffs.document import Archive, Document, body_of, read_body
from changeover.handoffs.reference import SCHEME
from changeover.handoffs.strategies import FETCH, Chapter, ContextStrategy, PackedContext, Recent
from changeover.handoffs.template import render
from changeover.handoffs.tokens import count, weight
from changeover.ids import context_id, root_of
from changeover.messages import Note, Reply, User, copied_messages, inline
from changeover.relay.commands import FetchContext, PackContext
from changeover.relay.events import CallRefused, ContextPacked, ToolFinished
from changeover.relay.perform.callbacks import TROUBLE, called, in_thread, let_go, within, words_of
from changeover.relay.perform.judge import consult
from changeover.relay.ports.world import World
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
        self.usage: Usage | None = None
        """Usage of the replies that the strategy got, also of those that it could not use."""

    async def ask_model(self, instructions: str, text: str, timeout: float) -> Reply:
        world, command = self._world, self._command
        handover = command.handover
        model = world.helper or world.models.get(handover.sender) or world.models.get(handover.receiver)
        if model is None:
            raise ModelError("no model can write the summary: the team has no helper_model")
        where = (command.conversation, command.id)
        reply = await consult(model, (instructions, text), where, timeout, command.turn)
        self.usage = reply.usage if self.usage is None else self.usage + reply.usage
        return reply

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
    """The context that the strategy made. If it failed, the error, with the context that its fallback made or, without
    one, the last messages."""
    strategy, effects, error = command.strategy, PackEffects(world, command), ""
    for each in filter(None, (strategy, strategy.fallback)):
        try:
            return replace(await _packed(command, each, effects), error=error, usage=effects.usage)
        except TROUBLE as trouble:
            let_go(trouble)
            error = error or words_of(trouble)
    event = ContextPacked(command.offer.call, command.task, Recent.name, command.fallback, error=error)
    return replace(event, usage=effects.usage)


async def _packed(command: PackContext, strategy: ContextStrategy, effects: PackEffects) -> ContextPacked:
    """The context that a strategy made."""
    packed = await strategy.pack(command.handover, effects)
    event = ContextPacked(command.offer.call, command.task, strategy.logged_as)
    if packed.messages and command.offer.mode is Mode.TRANSFER:
        return replace(event, messages=packed.messages, after=weight(*packed.messages))
    packed = _storable(packed)
    briefing, left_out = await _briefing(command, packed, effects)
    return replace(
        event,
        after=_weight(command, briefing),
        briefing=briefing,
        chapter=packed.chapter,
        covered=command.covered if packed.chapter else 0,
        retold=strategy.retells,
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
    """The parts of a briefing; if they do not fit, the largest are cut, and stored whole."""
    if command.room is None:
        return parts, None
    whole, most = too_large(parts, command.room)
    if not whole:
        return parts, None
    names = tuple(f"the {name.replace('_', ' ')}" for name in whole)
    document = Document(tuple(map(text_of, whole.values())), authors=names)
    ref = f"{SCHEME}{await effects.store(body_of(document), None)}"
    cut = {name: cut_part(name, text, most, ref) for name, text in whole.items()}
    return {**parts, **cut}, Chapter(ref=ref, messages=len(whole))


def _weight(command: PackContext, briefing: str) -> int:
    """Number of tokens that the receiver gets."""
    handover = command.handover
    if command.offer.mode is Mode.DELEGATE:
        return count(briefing) + count(handover.message or handover.request)
    return weight(User(handover.request), Note(briefing, handover.sender))


DEFINITION = ToolDefinition(
    name=FETCH,
    description="Search or read what was said before you took over: with a query all of it is searched. Without query"
    " and section you get an overview.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words of what you look for, in the language it was said in."},
            "section": {"type": "string", "description": "What to read on, for example: passages 12-20"},
            "ref": {"type": "string", "description": f"Only this address, {SCHEME}…"},
        },
        "additionalProperties": False,
    },
)


async def fetch_context(world: World, command: FetchContext) -> ToolFinished | CallRefused:
    """Read what the agent asked for, or refuse it."""
    args = command.call.args
    if wrong := _misfit(args):
        return CallRefused(command.id, command.task, misfit_words(FETCH, wrong), "arguments")
    ref, section, query = (str(args.get(name) or "") for name in ("ref", "section", "query"))
    documents: list[Document] = []
    why = ""
    for each in (ref,) if ref else command.refs:
        found = await _stored(world, command.root, each)
        why, documents = (found, documents) if isinstance(found, str) else (why, [*documents, found])
    if not documents:
        return ToolFinished(command.id, command.task, why, ok=False)
    text, sections = await in_thread(partial(_read, documents, section, query))
    if text is None:
        return ToolFinished(
            command.id, command.task, f"there is no section {inline(section)}; sections: {sections}", ok=False
        )
    return ToolFinished(command.id, command.task, text_of(text), read_only=True)


async def _stored(world: World, root: str, ref: str) -> Document | str:
    """A stored document, or why it cannot be read."""
    kept = await world.contexts.get(root, ref.removeprefix(SCHEME)) if world.contexts else None
    if kept is None:
        return f"there is no {inline(ref)} in this conversation; use an address as it was given to you, or none"
    if kept.expires_at is not None and kept.expires_at <= world.clock.now():
        return f"{ref} has expired; go on with what you were told, or ask the user"
    return read_body(kept.body)


def _read(documents: list[Document], section: str, query: str) -> tuple[str | None, str]:
    archive = Archive(documents, _by_words)
    return archive.read(section, query), archive.sections


def _misfit(args: dict[str, object]) -> str:
    if unknown := args.keys() - DEFINITION.parameters["properties"].keys():
        return f"it takes query, section and ref, not {', '.join(sorted(unknown))}"
    wrong = [name for name, value in args.items() if value is not None and not isinstance(value, str)]
    return f"{', '.join(wrong)}: give a text" if wrong else ""


def _by_words(query: str, texts: Sequence[str]) -> dict[int, float]:
    """The scores of texts that have a word of a query, or a synonym."""
    return {int(index): score for index, score in rank(query, {str(index): text for index, text in enumerate(texts)})}
