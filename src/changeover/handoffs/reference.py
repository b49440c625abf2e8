"""Reference: a strategy that stores the conversation and gives the receiver an address; Document is what it stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import msgspec
from msgspec import Struct

from changeover.handoffs.strategies import Chapter, ContextStrategy, Effects, Handover, PackedContext, count_faults
from changeover.handoffs.tokens import beginning, count, weight
from changeover.messages import Assistant, File, Message, Note, ToolResult, User, with_labels

CHUNK = 20
"""Number of messages in a section."""
SCHEME = "context://"
LONGEST = 20
"""Number of sections that a receiver is told by name; it can ask for the others too."""
SHARE, LEAST = 8, 60
"""Quoted facts may take this fraction of the tokens of all messages, but always this many tokens."""

Ranking = Callable[[Sequence[str], str], Sequence[int]]
"""Ranks passages by a query: the indexes of those that match, best first."""


class Kept(ContextStrategy, frozen=True, kw_only=True):
    """A strategy that stores the messages where the receiver can read them, and quotes facts from them."""

    max_facts: int = 300
    """Tokens that the quoted facts may take."""
    expires: float | None = None
    """Seconds after which the stored text can no longer be fetched; None keeps it as long as the conversation."""
    max_bytes: int = 1_000_000
    """Size that the stored text may have."""

    made = True
    retells = True
    must_store: ClassVar[bool] = True
    """Whether a text above `max_bytes` is an error; else the chapter has no address."""

    def faults(self) -> list[str]:
        found = [*super().faults(), *count_faults("max_bytes", self.max_bytes)]
        found += count_faults("max_facts", self.max_facts)
        if self.expires is not None and not self.expires > 0:
            found.append(f"expires={self.expires!r} must be a number of seconds above 0, or None")
        return found

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        return await self.pack_news(handover, effects) if _has_news(handover) else PackedContext()

    async def pack_news(self, handover: Handover, effects: Effects) -> PackedContext:
        """Pack a handover that holds more than the request and the sender's message."""
        return PackedContext(await self.store(handover, effects))

    async def store(self, handover: Handover, effects: Effects) -> Chapter:
        """Store the messages; the chapter has their facts, address and sections."""
        facts, document = await self._facts(handover, effects), document_of(handover.messages)
        body = body_of(document)
        if (size := len(body.encode())) > self.max_bytes:
            if self.must_store:
                raise ValueError(f"the messages take {size:,} bytes, and max_bytes={self.max_bytes:,}")
            return Chapter(facts=facts, messages=len(handover.messages))
        id = await effects.store(body, self.expires)
        return Chapter("", facts, f"{SCHEME}{id}", sections_of(document), len(handover.messages))

    async def _facts(self, handover: Handover, effects: Effects) -> tuple[str, ...]:
        """The facts that neither the request nor an earlier chapter holds."""
        from changeover.handoffs.essentials import essentials

        room = min(self.max_facts, max(LEAST, weight(*handover.messages) // SHARE))
        facts = await effects.run(partial(essentials, handover.messages, room))  # slow for a long conversation
        known = {fact for chapter in handover.chapters for fact in chapter.facts}
        return tuple(fact for fact in facts if fact not in known and fact.partition(": ")[2] not in handover.request)


def _has_news(handover: Handover) -> bool:
    """Whether there are messages beside the request and the sender's message, which the receiver reads anyway."""
    known = {handover.request, handover.message}
    return any(
        not isinstance(each, User | Note) or each.text not in known or (isinstance(each, User) and each.files)
        for each in handover.messages
    )


class Reference(Kept, frozen=True):
    """The user's request, key facts, and an address with which the receiver can fetch the rest when it needs it."""

    name = "reference"


class Document(Struct, frozen=True, omit_defaults=True):
    """A conversation that can be read in parts: its messages as texts, and its text files."""

    messages: tuple[str, ...] = ()
    tools: dict[str, tuple[int, ...]] = {}
    """Indexes of the results of each tool."""
    files: dict[str, str] = {}


def document_of(messages: Sequence[Message]) -> Document:
    """The document of these messages."""
    tools: dict[str, tuple[int, ...]] = {}
    files: dict[str, str] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolResult):
            tools[message.name] = (*tools.get(message.name, ()), index)
        elif isinstance(message, User):
            files |= {file.name: text for file in message.files if file.name and (text := _text_of(file))}
    return Document(tuple(map(_worded, messages)), tools, files)


def body_of(document: Document) -> str:
    return msgspec.json.encode(document).decode()


def read_body(body: str) -> Document:
    return msgspec.json.decode(body, type=Document)


def sections_of(document: Document) -> tuple[str, ...]:
    """The sections that can be read by name: ranges of messages, results of tools, files and their headings."""
    said = len(document.messages)
    stretches = range(0, said, CHUNK) if said > CHUNK else ()  # a short conversation is one section
    named = [f"messages {first + 1}-{min(first + CHUNK, said)}" for first in stretches]
    named += [f"tool {name}" for name in document.tools]
    for name, text in document.files.items():
        named += [f"file {name}", *(f"file {name}#{heading}" for heading, _ in _headed(text))]
    return tuple(named[:LONGEST])


def read_section(document: Document, section: str) -> str | None:
    """The text of a section; None if there is no such section."""
    wanted = section.strip()
    if found := re.fullmatch(r"messages?\s+(\d{1,9})(?:\s*-\s*(\d{1,9}))?", wanted, re.IGNORECASE):
        first, last = int(found[1]), int(found[2] or found[1])
        return _numbered(document, range(max(1, first) - 1, min(last, len(document.messages)))) or None
    kind, _, name = wanted.partition(" ")
    if kind.lower() == "tool" and name in document.tools:
        return _numbered(document, document.tools[name])
    if kind.lower() == "file":
        path, _, heading = name.partition("#")
        text = document.files.get(path)
        return text if text is None or not heading else dict(_headed(text)).get(heading.strip())
    return None


def search(document: Document, query: str, rank: Ranking, most: int) -> str:
    """The passages that match a query best, up to `most` tokens; empty if none matches."""
    passages = [*_message_passages(document), *_file_passages(document)]
    found: list[str] = []
    for index in rank(passages, query):
        found.append(passages[index])
        if count("\n\n".join(found)) > most:
            return "\n\n".join(found[:-1]) or cut(found[0], most)
    return "\n\n".join(found)


def overview(document: Document, most: int) -> str:
    """The whole document if it is short, else its sections and its beginning."""
    whole = "\n\n".join([_numbered(document, range(len(document.messages))), *_file_passages(document)])
    if count(whole) <= most:
        return whole
    contents = "\n".join(f"- {section}" for section in sections_of(document))
    room = max(2, most - count(contents)) // 2
    # The end holds what was said last, which is asked for most often.
    end = beginning(whole[::-1], room)[::-1]
    return f"It has these sections:\n{contents}\n\nIt begins:\n{cut(whole, room)}\n\nIt ends:\n{end}"


def cut(text: str, most: int) -> str:
    """The text, cut to `most` tokens with a mark."""
    shown = beginning(text, most)
    return text if shown == text else f"{shown}\n[… cut: it goes on; ask for a section of it, or with a query]"


def _worded(message: Message) -> str:
    match message:
        case User():
            return f"{message.author}: {with_labels(message.text, message.files)}"
        case Assistant():
            called = "".join(
                f"\n[called {call.name} with {call.malformed or msgspec.json.encode(call.args).decode()}]"
                for call in message.calls
            )
            return f"{message.agent}: {message.text}{called}"
        case ToolResult():
            return f"{message.name} {'answered' if message.ok else 'failed'}: {message.text}"
        case Note():
            return f"{message.author}: {message.text}"


def _text_of(file: File) -> str:
    """The content of a text file; empty for other files."""
    textual = file.media_type.startswith("text/") or file.media_type in ("application/json", "application/yaml")
    return file.data.decode("utf-8", "replace") if textual else ""


def _number(index: int, text: str) -> str:
    # Further lines are indented, so that only a message begins with a number.
    return "\n    ".join(f"[{index + 1}] {text}".splitlines())


def _numbered(document: Document, indexes: Sequence[int]) -> str:
    return "\n".join(_number(index, document.messages[index]) for index in indexes)


def _headed(text: str) -> Iterator[tuple[str, str]]:
    """The headings of a text, each with its part."""
    marks = list(re.finditer(r"^#{1,6}[ \t]+(.+?)[ \t]*$", text, re.MULTILINE))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark[1], text[mark.start() : following.start() if following else len(text)].strip()


def _message_passages(document: Document) -> list[str]:
    """The messages as passages; a result is in one passage with its call."""
    results = {index for indexes in document.tools.values() for index in indexes}
    passages: list[str] = []
    for index, text in enumerate(document.messages):
        if index in results and passages:
            passages[-1] += f"\n{_number(index, text)}"
        else:
            passages.append(_number(index, text))
    return passages


def _file_passages(document: Document) -> list[str]:
    return [
        f"[{name}] {paragraph.strip()}"
        for name, text in document.files.items()
        for paragraph in re.split(r"\n\s*\n", text)
        if paragraph.strip()
    ]
