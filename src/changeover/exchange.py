"""Exchange: exports a team that code and a store declare as one document, and imports a document into a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from changeover.agent.agent import Agent, Member
from changeover.assembly import Declared
from changeover.documents.team_document import Named, read_team, split_team
from changeover.documents.team_export import TeamExport, export_team
from changeover.documents.tool_modules import ToolModules
from changeover.ids import DEFAULT_TEAM
from changeover.relay.ports.declarations import Declaration, Edit, Kind
from changeover.toolkits.skills import packed_skill
from changeover.union import SECTIONS, document_of, read_rows

KINDS: dict[str, Kind] = {**SECTIONS, "settings": "team"}
"""The kinds of rows, by the sections of a document."""


def rows_document(rows: Sequence[Declaration], team: str) -> dict[str, Any]:
    """What the rows of a store declare for the team of this name."""
    named = {} if team == DEFAULT_TEAM else {"name": team}
    return {key: value for key, value in {**named, **document_of(rows, team)}.items() if value != {}}


def code_export(declared: Declared) -> TeamExport:
    """Export what code declares; the texts of skill folders are included."""
    return export_team(
        [_packed(each) for each in declared.members], asdict(declared), ToolModules(declared.tool_modules)
    )


def united(code: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    """The document of code and rows; code wins, and its agents come first: a team without a `start` starts there."""
    sections = {key: {**(own := code.get(key, {})), **rows.get(key, {}), **own} for key in SECTIONS}
    return {key: value for key, value in {**rows, **code, **sections}.items() if value != {}}


def import_edits(text: str, source: str, rows: Sequence[Declaration]) -> list[Edit]:
    """The changes that make the rows of a store equal to a document; other rows stay as they are."""
    current = {each.key: each for each in rows}
    edits = []
    for section, name, document in split_team(text, source):
        row = current.get((KINDS[section], name))
        if row is None or row.state == "removed" or row.document != document:
            edits.append(Edit(KINDS[section], name, document, expected=row.version if row else 0))
    return edits


def check_import(
    text: str, source: str, rows: Sequence[Declaration], team: str, modules: ToolModules, beside: Sequence[Named]
) -> None:
    """Check a document, which may name what code and rows declare; raises DocumentError with all faults, each with its
    line and column."""
    stored = read_rows(rows, team, modules, beside)
    read_team(text, source, modules, beside=[*stored.members, *stored.options.get("workflows", ()), *beside])


def changed_keys(edit: Edit, row: Declaration | None) -> list[str]:
    """The keys of a document that an edit adds, changes or removes."""
    before, after = row.document if row else {}, dict(edit.document or {})
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _packed(member: Member) -> Member:
    """The member, with the texts of its skill folders included."""
    if not isinstance(member, Agent) or not member.skills:
        return member
    return replace(member, skills=tuple(map(packed_skill, member.skills)))
