"""Where the demo keeps its log, and what to type to look at it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from changeover.cli.demo.page import Page


def store_url(store: str | None) -> str:
    """The store that was asked for, by URL or by file; else a new file that stays."""
    if store is None:
        handle, store = tempfile.mkstemp(prefix="desk-", suffix=".db")
        os.close(handle)
    return store if "://" in store else f"sqlite:///{store}"


def program() -> str:
    """How this program is called from here."""
    if shutil.which("changeover"):
        return "changeover"
    called = Path(sys.argv[0]).absolute()
    if called.name != "changeover":
        return f"{shlex.quote(sys.executable)} -m changeover"
    here = Path.cwd()
    return shlex.quote(str(called.relative_to(here) if called.is_relative_to(here) else called))


def show_store(page: Page, url: str, conversation: str, events: int) -> None:
    """Where the log lies, and three commands that look at it."""
    page.entry("log", f"{events} events in {url.removeprefix('sqlite:///')}; all of the above is read from them")
    page.rule("what to try next")
    for command in ("conversations", "handoffs list", f"graph {conversation}"):
        page.verbatim(f"{program()} {command} --store {shlex.quote(url)}")
