"""Exchange: exports the team as one document, and imports a document into the store."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from msgspec import Meta, Struct

from changeover.documents.team_export import TeamExport
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import to_yaml
from changeover.exchange import changed_keys, check_import, code_export, import_edits, rows_document, united
from changeover.server.resource import Resource, Served, Who
from changeover.server.resources.declarations import Drafts
from changeover.server.wire import Json, body
from changeover.union import in_code

resource = Resource("exchange")

TEXT = "text/plain"
SOURCE = "the document"
"""The name of an imported document in errors."""


class TeamText(Struct, frozen=True, forbid_unknown_fields=True):
    """A team's document."""

    text: Annotated[str, Meta(min_length=1)]
    """YAML or JSON."""
    write: bool = False
    """False shows what would change, and writes nothing."""


class ImportedChange(Struct, frozen=True):
    """One declaration that an import adds or changes."""

    kind: str
    name: str
    new: bool
    """True if the store does not declare it now."""
    keys: list[str]
    """The keys of its document that differ."""


class Imported(Struct, frozen=True):
    """What an import changes."""

    changes: list[ImportedChange]
    written: bool


@resource.route("GET /export", TeamText, media=(TEXT,))
async def export_document(
    team: Served, code: Annotated[bool, Query(description="With what code declares, as far as data can.")] = False
) -> Response:
    """What the store declares as one YAML document. Secrets are in it as references only."""
    stored = rows_document(await team.declarations.listed(), team.name)
    found = code_export(team.declared) if code else TeamExport({}, ())
    notes = "".join(f"# only code can express {each}\n" for each in found.left_out)
    text = to_yaml(united(found.document, stored))
    named = {"Content-Disposition": f'attachment; filename="{team.name}.yaml"'}
    return Response(notes + text, media_type=TEXT, headers=named)


@resource.route("POST /import", Imported, body=TeamText)
async def import_document(team: Served, who: Who, given: Annotated[TeamText, body(TeamText)]) -> Json:
    """Write the declarations of a document to the store, all or none; its other declarations stay as they are."""
    rows = await team.declarations.listed(include_removed=True)
    declared, current = team.declared, {each.key: each for each in rows}
    check_import(given.text, SOURCE, rows, team.name, ToolModules(declared.tool_modules), in_code(declared))
    edits = import_edits(given.text, SOURCE, rows)
    changes = []
    for edit in edits:
        row = current.get((edit.kind, edit.name))
        new = row is None or row.state == "removed"
        changes.append(ImportedChange(edit.kind, edit.name, new, changed_keys(edit, row)))
    if given.write and edits:
        await Drafts(team, who).write(edits)
    return Json(Imported(changes, given.write and bool(edits)))
