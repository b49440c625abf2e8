"""The pages of docs/reference, generated from the code; run as a module to update them."""

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import typer
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields
from sqlalchemy import Table
from typer.core import TyperGroup

from changeover import events
from changeover.cli.commands import app
from changeover.cli.exits import EXITS
from changeover.cli.terminal.help import paragraphs, sections, usage
from changeover.stores.sql import schema
from tests.docs.yaml_page import yaml_page

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/reference"
COMMAND = "python -m tests.docs.reference_pages"

MODULES = (
    "changeover",
    "changeover.protocol",
    "changeover.guards",
    "changeover.routing",
    "changeover.tools",
    "changeover.workflows",
    "changeover.bus",
    "changeover.models",
    "changeover.stream",
    "changeover.metrics",
    "changeover.events",
    "changeover.errors",
    "changeover.server",
    "changeover.testing",
)
"""The modules whose names are public."""

PARTS = {
    "changeover.router.Router": "team.router",
    "changeover.dispatch.bus.Bus": "team.bus",
    "changeover.dispatch.scheduler.Schedules": "team.schedules",
}
"""Classes that users get from a team and do not import, by the attribute that has them."""

PYTHON = """# Python

The public classes and functions, by the module that you import them from. Everything else is internal and may change.
The [guides](../getting-started.md) show how they are used together.
"""
CLI = f"""# Command line

`changeover -h` lists the commands, and `changeover COMMAND -h` explains one of them. A group with the command `list`
runs it by itself: `changeover tasks` means `changeover tasks list`.

{EXITS}
"""
EVENTS = """# Events

Everything that happens in a conversation is recorded as an event. You meet events in four places: `team.history(…)`,
`team.stream(…)`, hooks, and `changeover run --json`. Their classes are in `changeover.events`.

An event is stored as JSON: the key `event` holds its tag, and a field that has its default is left out. Later versions
add fields and events. They never rename or remove one, so old logs stay readable.

```python
import asyncio

from changeover import Agent, Team
from changeover.events import HandoffOffered
from changeover.testing import ScriptedModel, hands_off, says

script = {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("Sent back.")]}
team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(script))
team.run_sync("I was charged twice!", conversation="ada")

for record in asyncio.run(team.history("ada")):
    if isinstance(record.event, HandoffOffered):
        print(record.event.sender, "offered", record.event.message, "to", record.event.receiver)
```

<!-- prints -->
```text
triage offered Charged twice. to billing
```

Many events have these fields:
"""
COMMON = {
    "call": "The tool call or handoff: the position of the model's reply, and the number of the call in that reply.",
    "task": "The task: the position of the event that gave it to its agent.",
    "run": "The run: the position of the message that began it.",
    "agent": "The agent that it is about.",
    "sender": "The agent that hands over.",
    "receiver": "The agent that is handed to.",
    "mode": "Transfer or delegate.",
    "message": "What the sender tells the receiver, or a person is asked.",
    "text": "What was said, or the result of a call.",
    "reason": "Why, in the words of the agent, person or rule.",
    "by": "The person or worker that did it.",
    "rule": "The name of the rule.",
    "fault": "Why it failed: the error that a caller gets.",
    "retry_at": "When it is tried again; never if None.",
    "directive": "The `Command` that a tool or a `Function` returned.",
    "dropped": "Names beginning with `_handoff_` that a model or tool tried to set; only Changeover sets them.",
    "files": "Images and files that belong to it.",
    "strategy": "The strategy that chooses what the receiver reads.",
    "expected": "What the answer has to look like.",
    "max_iterations": "The number of model replies that the receiver may use; 0 for the default.",
    "artifacts": "Addresses of what was made, by name.",
    "workflow_state": "Phase and steps of the work.",
    "spent": "What the delegate has spent.",
    "usage": "The tokens and the cost of the model call.",
}
"""Fields that mean the same in all events that have them, unless an event explains its own."""
TABLES = f"""# Tables

A team with `store="sqlite:///desk.db"` or `store="postgresql://…"` keeps these tables there. They are the same in both
databases. Read them with any tool you like. Change them only through Changeover.

The log is the table `entries`. Each of the others is computed from it or stands beside it. Times are seconds since
1970, in UTC. This is version {schema.VERSION} of the schema; `changeover db upgrade` brings an older store to it.
"""
GROUPS = {
    "Tables to query": ("conversations", "tasks", "messages", "handoffs", "approvals", "tickets", "ledgers", "tools"),
    "The log": ("entries",),
    "Other tables": (),
}
"""Headings of the page of tables; the last one has all tables that no other has."""
TYPES = {"TEXT": "text", "INTEGER": "integer", "DOUBLE": "number", "BOOLEAN": "true or false", "VARCHAR(32)": "text"}


def python_page() -> Iterator[str]:
    """The public names, which mkdocstrings explains from their docstrings."""
    yield PYTHON
    for name in MODULES:
        module = import_module(name)
        yield f"## {name}\n"
        yield f"{(module.__doc__ or '').splitlines()[0]}\n"
        options = ""
        if module is events:
            yield "Their fields are listed in [Events](events.md).\n"
            options = "    options:\n      members: false\n"
        yield from (f"::: {name}.{each}\n{options}" for each in sorted(public_names(module), key=str.lower))
        if name == "changeover":
            yield "## Parts of a team\n"
            yield f"You do not import these. {', '.join(f'`{each}`' for each in PARTS.values())} have them.\n"
            yield from (f"::: {each}\n    options:\n      merge_init_into_class: false\n" for each in PARTS)


def public_names(module: ModuleType) -> list[str]:
    """The names in `__all__`, or the classes that the module defines."""
    own = [name for name, each in vars(module).items() if isinstance(each, type) and each.__module__ == module.__name__]
    return list(getattr(module, "__all__", own))


def cli_page() -> Iterator[str]:
    """All commands, in the order of the help."""
    yield CLI
    group: Any = typer.main.get_command(app)
    context = group.context_class(group, info_name="changeover")
    for title, rows in sections(group, context).items():
        if title != "Options":
            yield f"## {title}\n"
            for name, _ in rows:
                yield from _command(group.commands[name], context, 3)


def _command(command: Any, parent: Any, level: int) -> Iterator[str]:
    context = command.context_class(command, info_name=command.name, parent=parent)
    yield f"{'#' * level} {context.command_path}\n"
    yield from (f"{_escaped(each)}\n" for each in paragraphs(command) if each != EXITS)
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            yield from _command(each, context, level + 1)
        return
    yield f"```text\n{usage(command, context)}\n```\n"
    for title, rows in sections(command, context).items():
        shown = [(name, about) for name, about in rows if "--help" not in name]
        if shown:
            yield from _table((title.lower().removesuffix("s"), "meaning"), ((f"`{a}`", _escaped(b)) for a, b in shown))


@cache
def source() -> Any:
    """The package as it is written, with all docstrings; reading it takes seconds."""
    return griffe.load("changeover", search_paths=[str(ROOT / "src")])


def events_page() -> Iterator[str]:
    """All classes of `changeover.events`, by the part of a conversation that they are about."""
    yield EVENTS
    yield from _table(("field", "meaning"), ((f"`{name}`", meaning) for name, meaning in COMMON.items()))
    for part in ("runs", "calls", "handoffs", "workflows"):
        module = source()[f"relay.events.{part}"]
        yield f"## {(module.docstring.value if module.docstring else part).split(':')[0].split(';')[0].rstrip('.')}\n"
        for each in module.classes.values():
            if each.name in events.__all__:
                yield from _event(each)


def _event(found: griffe.Class) -> Iterator[str]:
    struct = getattr(events, found.name)
    tag = struct.__struct_config__.tag
    yield f"### {found.name}\n"
    yield _doc(found) + (f" Its tag is `{tag}`.\n" if tag else " It is a part of other events.\n")
    rows = [
        (f"`{each.name}`", _kind(found.attributes[each.name]), _default(each), _meaning(found, each.name))
        for each in fields(struct)
    ]
    if rows:
        yield from _table(("field", "type", "default", "meaning"), rows)


def _meaning(found: griffe.Class, name: str) -> str:
    meaning = _escaped(_doc(found[name])) or COMMON.get(name)
    assert meaning, f"{found.name}.{name} needs a docstring: the reference explains every field of an event"
    return meaning


def _kind(field: griffe.Attribute) -> str:
    """The type as the source has it; no bars, which would end the cell of a table."""
    alternatives = re.split(r" \| (?![^\[]*\])", str(field.annotation))
    return " or ".join(f"`{each.replace(' | ', ' or ')}`" for each in alternatives)


def _default(field: FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    return f"`{value.value if isinstance(value, Enum) else value!r}`"


def tables_page() -> Iterator[str]:
    """All tables of the schema with their columns."""
    yield TABLES
    declared = source()[schema.__name__.removeprefix("changeover.")]
    tables = {table.name: (table, name) for name, table in vars(schema).items() if isinstance(table, Table)}
    others = sorted(set(tables).difference(*GROUPS.values()))
    for title, names in GROUPS.items():
        yield f"## {title}\n"
        for name in names or others:
            yield f"### {name}\n"
            table, attribute = tables[name]
            yield f"{_doc(declared[attribute])}\n"
            yield from _table(("column", "type", "may be NULL"), (_column(each) for each in table.columns))


def _column(column: Any) -> tuple[str, str, str]:
    null = "no, a key" if column.primary_key else "yes" if column.nullable else "no"
    return f"`{column.name}`", TYPES[str(column.type)], null


def _doc(found: griffe.Object) -> str:
    return " ".join(found.docstring.value.split()) if found.docstring else ""


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    lines = [head, ("---",) * len(head), *rows]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


PAGES = {
    "python": python_page,
    "cli": cli_page,
    "yaml": lambda: yaml_page(_table),
    "events": events_page,
    "tables": tables_page,
}


def generated(page: str) -> str:
    """The text of a page, as the code wants it."""
    return "\n".join(PAGES[page]()).rstrip("\n") + "\n"


if __name__ == "__main__":
    for page in PAGES:
        (FOLDER / f"{page}.md").write_text(generated(page))
