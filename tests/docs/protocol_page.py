"""The tables of docs/protocol.md, generated from the code; run as a module to update them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from changeover.handoffs.package_schema import package_schema
from changeover.handoffs.protocol import TRANSITIONS

PAGE = Path(__file__).parents[2] / "docs/protocol.md"
COMMAND = "python -m tests.docs.protocol_page"
TABLE = re.compile(r"(?<=^<!-- table of )(?P<name>\w+)(?P<start> -->\n)(?P<rows>.*?)(?=^<!-- end -->$)", re.M | re.S)
WORDS = {"string": "text", "object": "object", "integer": "integer", "number": "number", "null": "null"}


def states() -> Iterator[str]:
    """The states that may follow each state; states with the same successors share a row."""
    yield "| state | what may happen to it, and the state after |"
    yield "|---|---|"
    rows: dict[str, list[str]] = {}
    for state, follows in TRANSITIONS.items():
        may = ", ".join(f"{signal} → `{after}`" for signal, after in follows.items())
        rows.setdefault(may or "nothing", []).append(f"`{state}`")
    for may, same in rows.items():
        yield f"| {', '.join(same)} | {may} |"


def fields() -> Iterator[str]:
    """The fields of a package; nested objects are listed under the field that holds them."""
    yield "| field | | what it says |"
    yield "|---|---|---|"
    schema = package_schema()["$defs"]
    for group, about in schema["HandoffPackage"]["properties"].items():
        if group == "protocol":
            yield f"| `{group}` | text, required | {about['description']} |"
            continue
        inner = schema[_named(about)]
        for field, said in inner["properties"].items():
            needed = ", required" if field in inner["required"] else ""
            yield f"| `{group}.{field}` | {_kind(said, schema)}{needed} | {said['description']} |"


def _named(said: dict[str, Any]) -> str:
    """The name of the object that a field holds."""
    name: str = said.get("$ref", "").rpartition("/")[2]
    return name


def _kind(said: dict[str, Any], schema: dict[str, Any]) -> str:
    if "anyOf" in said:
        return " or ".join(_kind(each, schema) for each in said["anyOf"])
    said = schema.get(_named(said), said)
    if "enum" in said:
        return " or ".join(f'"{each}"' for each in said["enum"])
    if "properties" in said:
        return f"object of {', '.join(f'`{name}`' for name in said['properties'])}"
    if said["type"] == "array":
        kind, _, rest = _kind(said["items"], schema).partition(" ")
        return f"list of {kind}s {rest}".rstrip()
    return "timestamp" if said.get("format") == "date-time" else WORDS[said["type"]]


TABLES = {"states": states, "fields": fields}


def rewritten(page: str) -> str:
    """The page with its tables replaced."""
    return TABLE.sub(lambda found: found["name"] + found["start"] + "\n".join(TABLES[found["name"]]()) + "\n", page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
