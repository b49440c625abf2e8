"""Declarations: agents, tools, skills, workflows and team settings as rows of a store, with versions and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec
from msgspec import Struct

from changeover.errors import DeclarationConflict, EngineError, MisconfiguredError, PackageError
from changeover.handoffs.json_value import json_copy
from changeover.ids import SLUG

Kind: TypeAlias = Literal["agent", "tool", "skill", "team", "workflow"]
"""`team` holds the settings of the team of this name."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Standing: TypeAlias = Literal["enabled", "disabled", "removed"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)

ToolType: TypeAlias = Literal["handoff", "internal", "http_api", "mcp_server", "sql_function"]
TOOL_TYPES: tuple[ToolType, ...] = get_args(ToolType)
"""The values that the `type` of a tool's document may have."""


class Declaration(Struct, frozen=True):
    """One version of a declaration."""

    kind: Kind
    name: str
    version: int
    """From 1, per kind and name."""
    edition: int
    """The change of the store that wrote it, from 1; rows that were written together share it."""
    state: Standing
    document: dict[str, Any]
    """As it stands under this name in a YAML team file and in an API body."""
    at: float = 0.0
    """When it was written, by the store's clock, in seconds since the epoch."""
    by: str = ""
    """The name of its writer."""
    rank: int = 0
    """Its place in the order in which declarations were first written, the same in all versions: a team whose settings
    name no start agent starts at its first one."""

    @property
    def key(self) -> tuple[Kind, str]:
        return self.kind, self.name


class Edit(Struct, frozen=True):
    """A change of one declaration."""

    kind: Kind
    name: str
    document: Mapping[str, Any] | None = None
    """The new document; None leaves it as it is."""
    state: Standing | None = None
    """The new state; None leaves it as it is. A removed declaration that gets a document is enabled."""
    expected: int | None = None
    """The version on which the writer bases the change, 0 for a new declaration; None overwrites any."""


Check: TypeAlias = Callable[[Sequence[Declaration]], None]
"""Gets all current declarations as they would be; raises MisconfiguredError if they are no team."""


class EditionMoved(EngineError):
    """An append begins a run, and the store's declarations have an `edition` that its process has not seen."""

    def __init__(self, edition: int) -> None:
        self.edition = edition
        super().__init__(f"the declarations of the store are at edition {edition} by now")


class Declarations(Protocol):
    """The declarations of a store, for all processes that share it. No version is ever deleted."""

    async def edition(self) -> int:
        """The number of the last change; 0 if there was none."""
        ...

    async def at_edition(self, edition: int) -> list[Declaration]:
        """The declarations as they were at this edition, by kind and rank, disabled and removed ones included."""
        ...

    async def listed(self, kind: Kind | None = None, include_removed: bool = False) -> list[Declaration]:
        """The current declarations, of one kind or of all, by kind and rank."""
        ...

    async def one(self, kind: Kind, name: str, version: int | None = None) -> Declaration | None:
        """A declaration, in its current version or in this one; None if there is none. It may be a removed one."""
        ...

    async def history(self, kind: Kind, name: str) -> list[Declaration]:
        """All versions of a declaration, the oldest first."""
        ...

    async def put(
        self, kind: Kind, name: str, document: Mapping[str, Any], *, by: str = "", expected: int | None = None
    ) -> Declaration:
        """Write a new version of a document; see `write`."""
        ...

    async def set_state(
        self, kind: Kind, name: str, state: Standing, *, by: str = "", expected: int | None = None
    ) -> Declaration:
        """Enable, disable or remove a declaration; see `write`."""
        ...

    async def write(self, edits: Sequence[Edit], *, by: str = "") -> list[Declaration]:
        """Write all of these changes as one edition, or none; returns the current version of each.

        What is as it should be already gets no new version. Raises DeclarationConflict if one is not at its expected
        version, and MisconfiguredError if one cannot be written or the outcome is no team.
        """
        ...

    def checked_by(self, check: Check) -> Declarations:
        """The same declarations, for a writer whose changes have to pass this check."""
        ...


def edited(current: Sequence[Declaration], edits: Sequence[Edit], edition: int, by: str) -> list[Declaration]:
    """The new versions that these changes make at this edition; their time is left to the store."""
    rows = {each.key: each for each in current}
    if faults := [fault for edit in edits for fault in _faults(edit, rows.get((edit.kind, edit.name)))]:
        raise MisconfiguredError(*faults)
    new: dict[tuple[Kind, str], Declaration] = {}
    last = max((each.rank for each in current), default=0)
    for edit in edits:
        key = edit.kind, edit.name
        before = rows.get(key)
        version = before.version if before else 0
        if edit.expected not in (None, version):
            raise _conflict(edit, before)
        document = before.document if edit.document is None and before else json_copy(edit.document)
        state = edit.state or _standing(edit, before)
        if before is None or (document, state) != (before.document, before.state):
            rank = before.rank if before else (last := last + 1)
            fresh = Declaration(edit.kind, edit.name, version + 1, edition, state, document, by=by, rank=rank)
            new[key] = rows[key] = fresh
    return list(new.values())


def after(current: Sequence[Declaration], new: Sequence[Declaration]) -> list[Declaration]:
    """All current declarations once these are written, by kind and rank."""
    return in_order({each.key: each for each in (*current, *new)}.values())


def in_order(rows: Iterable[Declaration]) -> list[Declaration]:
    """These declarations, by kind and rank."""
    return sorted(rows, key=lambda each: (each.kind, each.rank))


def encoded(declaration: Declaration) -> str:
    """The document as JSON text."""
    return msgspec.json.encode(declaration.document).decode()


def _standing(edit: Edit, before: Declaration | None) -> Standing:
    if before is None or (edit.document is not None and before.state == "removed"):
        return "enabled"
    return before.state


def _faults(edit: Edit, before: Declaration | None) -> list[str]:
    who = f"{edit.kind} {edit.name!r}"
    if edit.kind not in KINDS:
        return [f"{who} is of an unknown kind; there are: {', '.join(KINDS)}"]
    if not isinstance(edit.name, str) or not SLUG.fullmatch(edit.name):
        return [f"{who} has an unusable name; use letters, digits, '-' and '_', at most 64"]
    if edit.state not in (None, *STANDINGS):
        return [f"{who} cannot be {edit.state!r}; it can be: {', '.join(STANDINGS)}"]
    if edit.document is None:
        return [] if before else [f"the store has no {who}"]
    return _document_faults(edit.kind, who, edit.document)


def _document_faults(kind: Kind, who: str, document: object) -> list[str]:
    if not isinstance(document, Mapping):
        return [f"{who} has {document!r} as its document, and needs a mapping"]
    try:
        json_copy(document)
    except PackageError as error:
        return [f"{who}: {error.path} {error.problem}"]
    if kind == "tool" and document.get("type") not in TOOL_TYPES:
        found = f"the type {document['type']!r}" if "type" in document else "no type"
        return [f"{who} has {found}; there are: {', '.join(TOOL_TYPES)}"]
    return []


def _conflict(edit: Edit, before: Declaration | None) -> DeclarationConflict:
    expected = edit.expected or 0
    if before is None:
        return DeclarationConflict(edit.kind, edit.name, expected, 0, "", "")
    when = datetime.fromtimestamp(before.at, UTC).isoformat(" ", "seconds")
    return DeclarationConflict(edit.kind, edit.name, expected, before.version, before.by, when)
