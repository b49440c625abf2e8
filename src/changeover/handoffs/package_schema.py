"""The JSON schema of a package, for programs without Changeover; `python -m` this module to write the file again."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from changeover.handoffs import package
from changeover.handoffs.package import MAJOR, PRIORITIES, HandoffPackage
from changeover.handoffs.part import Part

FILE = Path(__file__).with_name("package.schema.json")
COMMAND = "python -m changeover.handoffs.package_schema"


def package_schema() -> dict[str, Any]:
    """The JSON schema of HandoffPackage, with the docstrings of its fields as descriptions."""
    (root,), schemas = msgspec.json.schema_components([HandoffPackage], ref_template="#/$defs/{name}")
    described = {name: _described(schema, getattr(package, name)) for name, schema in schemas.items()}
    described["Metadata"]["properties"]["priority"] = _priority(described["Metadata"]["properties"]["priority"])
    whole = described["HandoffPackage"]
    whole["properties"]["protocol"]["pattern"] = rf"^{MAJOR}\.[0-9]+$"
    whole["required"] = ["protocol", *whole["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:changeover:handoff-package:{MAJOR}",
        **root,
        "$defs": described,
    }


def field_texts(part: type[Part]) -> dict[str, str]:
    """The docstrings of the fields of a part, from its source."""
    (declared,) = ast.parse(inspect.getsource(part)).body
    assert isinstance(declared, ast.ClassDef)
    texts = {}
    for line, following in zip(declared.body, declared.body[1:], strict=False):
        match line, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = text
            case _:
                pass
    return texts


def as_text(schema: dict[str, Any]) -> str:
    """The schema as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _described(schema: dict[str, Any], kind: type) -> dict[str, Any]:
    if not issubclass(kind, Part):
        return schema
    texts = field_texts(kind)
    fields = {name: field for name, field in schema["properties"].items() if name != "unknown"}
    properties = {name: {"description": texts[name], **field} for name, field in fields.items()}
    return {**schema, "properties": properties, "additionalProperties": True}


def _priority(field: dict[str, Any]) -> dict[str, Any]:
    figure = {name: field[name] for name in ("type", "minimum", "maximum")}
    rest = {name: value for name, value in field.items() if name not in figure}
    return {**rest, "anyOf": [figure, {"enum": list(PRIORITIES)}]}


if __name__ == "__main__":
    FILE.write_text(as_text(package_schema()), encoding="utf-8")
