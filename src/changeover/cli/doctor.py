"""Command `doctor`: check Python, packages, extras, API keys and the store of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal, NamedTuple

import typer

from changeover.cli.exits import Exit, error_text
from changeover.cli.options import FILE, VARIABLE, DatabaseOption, JsonOption, has_default_store, store_to_make

OLDEST = (3, 11)
NEEDED = (
    *("alembic", "cronsim", "jmespath", "jsonschema", "msgspec", "pydantic", "pydantic-ai-slim", "pyyaml", "rich"),
    *("splintr-rs", "sqlalchemy", "typer"),
)
PROVIDERS = {
    "openai": ("openai", ("OPENAI_API_KEY",)),
    "anthropic": ("anthropic", ("ANTHROPIC_API_KEY",)),
    "google": ("google.genai", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "bedrock": ("boto3", ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK")),
}
"""Each extra for models, a module that it installs, and its variables; one of them has to be set."""
EXTRAS = {
    "mcp": "mcp",
    "otel": "opentelemetry.sdk",
    "postgres": "psycopg",
    "server": "fastapi",
    "temporal": "temporalio",
    "wordllama": "wordllama",
}
"""Each other extra, and a module that it installs."""


class Finding(NamedTuple):
    """The result of one check; a `note` is not a fault."""

    what: str
    verdict: Literal["ok", "note", "wrong"]
    about: str


def doctor(store: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Check Python, packages, API keys and the store.

    Keys are shown by name only. Exit code 1 if something is wrong.
    """
    from changeover.cli.terminal.render import print_json, print_table

    findings = list(_findings(store))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table([finding._asdict() for finding in findings], "")
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(Exit.FAILED)


def _findings(store: str | None) -> Iterator[Finding]:
    yield _python()
    yield Finding("changeover", "ok", version("changeover"))
    yield from map(_package, NEEDED)
    yield from (_extra(name, *needed) for name, needed in PROVIDERS.items())
    yield from (_extra(name, module) for name, module in EXTRAS.items())
    yield _store(store)


def _python() -> Finding:
    fine = sys.version_info >= OLDEST
    shown = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok" if fine else "wrong", shown if fine else f"{shown}; 3.11 or newer is needed")


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "wrong", "missing; reinstall with: pip install --force-reinstall changeover")


def _extra(name: str, module: str, keys: Sequence[str] = ()) -> Finding:
    if not _is_installed(module):
        return Finding(f"extra {name}", "note", f"not installed: pip install 'changeover[{name}]'")
    found = [key for key in keys if os.environ.get(key)]
    if keys and not found:
        return Finding(f"extra {name}", "note", f"installed; to use its models, set {' or '.join(keys)}")
    return Finding(f"extra {name}", "ok", f"installed, {found[0]} is set" if found else "installed")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _store(url: str | None) -> Finding:
    from changeover.errors import ChangeoverError
    from changeover.stores.sql.schema import VERSION
    from changeover.stores.views import existing, version_of

    if not url and not has_default_store():
        return Finding("store", "note", f"none: no --store, no {VARIABLE}, no {FILE} here")
    try:
        database = existing(store_to_make(url))
        found = version_of(database)
    except ChangeoverError as error:
        return Finding("store", "wrong", error_text(error))
    if found != VERSION:
        has = "has no tables" if found is None else f"has tables of version {found}, not {VERSION}"
        return Finding("store", "wrong", f"{database.shown} {has}; see: changeover db upgrade")
    return Finding("store", "ok", f"{database.shown}, tables of version {found}")
