"""Document: messages and files in a form that can be stored; Archive: several documents, read in passages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from changeover.handoffs.likeness import Corpus
from changeover.handoffs.passages import divided, items, statements
from changeover.handoffs.template import quoted
from changeover.handoffs.tokens import count
from changeover.messages import Assistant, Message, ToolResult, User, inline

LISTED = 20
"""Number of sections whose names a receiver reads; it can ask for the others too."""
NAME = 80
"""Number of characters of a name of a section."""
NUMBERS = re.compile(r"(?:message|passage)s?\s+(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.IGNORECASE)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*$", re.MULTILINE)
TRIED = 60
"""Number of passages that are tried for an answer; more do not fit."""
STRONG = 0.33
"""A later statement that holds this share of a statement is always shown with it; of weaker ones, one per passage."""
WEAK, FAR = 0.1, 0.3
"""The share of a query that the best passage has to hold, and the share of its score that other passages must reach."""
NEAR = {0: 1.0, 1: 0.4, 2: 0.2, -1: 0.1}
"""The share of a score that counts for neighbours, by offset: an answer often lacks the words of its question."""
Ranking = Callable[[str, Sequence[str]], Mapping[int, float]]
"""Scores texts by the words of a query; texts without any of them are left out."""
MOST, FOUND = 2_000, 900
"""Largest answer in tokens for a section, and for a query."""


class Document(Struct, frozen=True, omit_defaults=True):
    """Messages as texts, and text files."""

    messages: tuple[str, ...] = ()
    tools: dict[str, tuple[int, ...]] = {}
    """Indexes of the results of each tool."""
    files: dict[str, str] = {}
    authors: tuple[str, ...] = ()
    """Labels of the messages; in documents of earlier versions the texts begin with them."""


class Passage(Struct, frozen=True):
    """A part of a document that is found and read as a whole."""

    label: str
    statements: Sequence[str]
    sections: tuple[str, ...] = ()
    """Names of the sections that it is part of."""


def document_of(messages: Sequence[Message]) -> Document:
    """The document of these messages. The label of a result tells what its tool was called with."""
    calls = [call for each in messages if isinstance(each, Assistant) for call in each.calls]
    asked = {call.id: ", ".join(statements(call.malformed or _json(call.args))) for call in calls}
    # A call whose arguments stand in the label of its result needs no text of its own.
    told = {each.call for each in messages if isinstance(each, ToolResult) and len(asked.get(each.call, "")) <= NAME}
    said = [(each, item) for each in messages for item in items(_without(each, told)) if item[1].strip()]
    tools: dict[str, tuple[int, ...]] = {}
    files: dict[str, str] = {}
    authors: list[str] = []
    for index, (message, (label, _)) in enumerate(said):
        arguments = asked.get(message.call) if isinstance(message, ToolResult) else ""
        authors.append(f"{label} {inline(arguments)}" if arguments else label)
        if isinstance(message, ToolResult):
            tools[message.name] = (*tools.get(message.name, ()), index)
    for file in (file for each in messages if isinstance(each, User) for file in each.files if file.text):
        files[_unused(file.name or "without a name", files)] = file.text
    return Document(tuple(text for _, (_, text) in said), tools, files, tuple(authors))


def _without(message: Message, calls: Collection[str]) -> Message:
    if not isinstance(message, Assistant) or not message.calls:
        return message
    return replace(message, calls=tuple(call for call in message.calls if call.id not in calls))


def _json(args: object) -> str:
    return json.dumps(args, ensure_ascii=False, default=str)


def _unused(name: str, names: Collection[str]) -> str:
    number = 1 + sum(each == name or each.startswith(f"{name} (") for each in names)
    return name if number == 1 else f"{name} ({number})"


def body_of(document: Document) -> str:
    return msgspec.json.encode(document).decode()


def read_body(body: str) -> Document:
    return msgspec.json.decode(body, type=Document)


def sections_of(document: Document) -> tuple[str, ...]:
    """Names of the sections that can be read: results of tools, files and their headings."""
    named = [_name(f"tool {name}") for name in document.tools]
    for name, text in document.files.items():
        headings = (heading for heading, _ in _headed(text) if heading)
        named += [_name(f"file {name}"), *(_name(f"file {name}#{heading}") for heading in headings)]
    return tuple(dict.fromkeys(named))[:LISTED]


def passages(document: Document) -> Iterator[Passage]:
    """The passages of a document, in order."""
    results = {index: _name(f"tool {name}") for name, indexes in document.tools.items() for index in indexes}
    for index, text in enumerate(document.messages):
        label = document.authors[index] if document.authors else ""
        sections = (results[index],) if index in results else ()
        yield from (Passage(label, part, sections) for part in divided(text))
    for name, text in document.files.items():
        file, columns = f"file {inline(name)}", _columns(text)
        for heading, body in _headed(text):
            label = f"{file}, under {inline(heading)}" if heading else f"{file}{columns}"
            sections = (_name(f"file {name}"), *([_name(f"file {name}#{heading}")] if heading else ()))
            yield from (Passage(label, part, sections) for part in divided(body))


def _name(text: str) -> str:
    return " ".join(text.split())[:NAME]


def _headed(text: str) -> Iterator[tuple[str, str]]:
    """The text below each Markdown heading, with the heading; first the text before them."""
    marks = list(HEADING.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    yield "", text[: ends[0]]
    for mark, end in zip(marks, ends[1:], strict=True):
        yield mark[1], text[mark.start() : end]


def _columns(text: str) -> str:
    """The first line of a table, without which its rows cannot be understood."""
    first, _, rest = text.partition("\n")
    second = rest.partition("\n")[0]
    is_table = any(first.count(mark) == second.count(mark) > 1 for mark in (",", ";", "\t", "|"))
    return f", columns {inline(first.strip(), 2 * NAME)}" if is_table else ""


class Archive:
    """Documents that a receiver can read, oldest first. Their passages have consecutive numbers."""

    def __init__(self, documents: Iterable[Document], by_words: Ranking) -> None:
        self._by_words = by_words
        self._passages = [passage for document in documents for passage in passages(document)]

    def read(self, section: str, query: str = "") -> str | None:
        """The passages of a section, or those that fit a query best; None if there is no such section."""
        within = self._within(section) if section else range(len(self._passages))
        if not within and section:
            return None
        if query and within:
            return self._found(query, within)
        return self._page(within, MOST) if section else self._overview()

    @property
    def sections(self) -> str:
        """The names by which passages can be read, as a text."""
        named = dict.fromkeys(name for passage in self._passages for name in passage.sections)
        return ", ".join([f'"passages 1-{len(self._passages)}"', *map(inline, list(named)[:LISTED])])

    def _within(self, section: str) -> Sequence[int]:
        if found := NUMBERS.fullmatch(section.strip()):
            first, last = int(found[1]), int(found[2] or found[1])
            return range(max(1, first) - 1, min(last, len(self._passages)))
        wanted = _name(section).casefold()
        return [
            index
            for index, passage in enumerate(self._passages)
            if any(name.casefold() == wanted for name in passage.sections)
        ]

    def _page(self, within: Sequence[int], most: int) -> str:
        """As many passages as fit, and how to read on."""
        end = max(1, self._fitting(within, most))
        shown = [self._shown(index) for index in within[:end]]
        if end < len(within):
            shown.append(f'[it goes on: section "passages {within[end] + 1}-{within[-1] + 1}"]')
        return "\n\n".join(shown)

    def _fitting(self, within: Sequence[int], most: int) -> int:
        """Number of these passages that fit into `most` tokens."""
        for number, index in enumerate(within):
            if (most := most - count(self._shown(index)) - 1) < 0:
                return number
        return len(within)

    def _overview(self) -> str:
        """All passages if they are few; else the sections, the beginning and the end."""
        every = range(len(self._passages))
        if self._fitting(every, MOST) == len(every):
            return self._page(every, MOST)
        end = len(every) - self._fitting(every[::-1], MOST // 2)
        begins, ends = self._page(range(end), MOST // 2), self._page(every[end:], MOST)
        return f"Sections: {self.sections}\n\nIt begins:\n\n{begins}\n\nIt ends:\n\n{ends}"

    def _found(self, query: str, within: Sequence[int]) -> str:
        """The passages that fit a query best, each after later ones that resemble it; and how to read on."""
        texts = [f"{each.label} {' '.join(each.statements)}" for each in self._passages]
        corpus = Corpus(texts)
        scores = self._near([corpus.scores(query), self._by_words(query, texts)])
        ranked = sorted(filter(scores.__contains__, within), key=lambda index: (-scores[index], -index))
        fitting = [index for index in ranked if scores[index] >= FAR * scores[ranked[0]]]
        lead = []
        if not fitting:
            lead = [f"[nothing fits {inline(query)}; this stands out]"]
            fitting = sorted(within, key=lambda index: -corpus.unlikeness(texts[index]))
        first, last = max(1, fitting[0] - 1), min(len(texts), fitting[0] + 3)
        return "\n\n".join([*lead, *self._filled(fitting), f'[to read on: section "passages {first}-{last}"]'])

    def _near(self, rankings: Iterable[Mapping[int, float]]) -> dict[int, float]:
        """The scores of all rankings together; a share of each also counts for the passages around it."""
        found: dict[int, float] = {}
        for scores in rankings:
            best = max(scores.values(), default=0.0)
            for index, score in scores.items() if best > WEAK else ():
                for offset, share in NEAR.items():
                    found[index + offset] = found.get(index + offset, 0.0) + share * score / best
        return found

    def _filled(self, fitting: Sequence[int]) -> Iterator[str]:
        """As many of these passages as fit, each after later statements that resemble its own."""
        told = [(index, text) for index, passage in enumerate(self._passages) for text in passage.statements]
        first = {index: at for at, (index, _) in reversed(list(enumerate(told)))}
        corpus, seen, room = Corpus(text for _, text in told), set[int](), FOUND
        for index in fitting[:TRIED]:
            own = range(first[index], first[index] + len(self._passages[index].statements))
            newer = sorted((told[at] for at in _newer(corpus, own, told) if told[at][0] not in seen), reverse=True)
            texts = [*(self._block(at, [text], ", in part") for at, text in newer), self._shown(index)]
            if (cost := sum(map(count, texts)) + len(texts)) <= room or not seen:
                room -= cost
                seen.add(index)
                yield from texts

    def _shown(self, index: int) -> str:
        return self._block(index, self._passages[index].statements)

    def _block(self, index: int, statements: Sequence[str], more: str = "") -> str:
        head = f"[{index + 1} of {len(self._passages)}] {self._passages[index].label}{more}:"
        return f"{head}\n{quoted(chr(10).join(statements))}"


def _newer(corpus: Corpus, own: range, told: Sequence[tuple[int, str]]) -> set[int]:
    """The later statements that resemble these strongly; if none does, the one that resembles one of them most."""
    alike = [each for at in own for each in corpus.successors(told[at][1], at)[:1] if each[1] not in own]
    return {at for _, at in [each for each in alike if each[0] >= STRONG] or sorted(alike)[-1:]}
