"""Reading what was said before one took over, as an effect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from changeover.handoffs.chapters import FETCH
from changeover.handoffs.reference import SCHEME, Document, cut, overview, read_body, read_section, search, sections_of
from changeover.relay.commands import FetchContext
from changeover.relay.events import CallRefused, ToolFinished
from changeover.relay.perform.callbacks import in_thread
from changeover.relay.world import World
from changeover.routing.match import rank
from changeover.tools.definition import ToolDefinition

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
