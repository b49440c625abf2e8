"""Command `db`: upgrade a store's tables, show their version, check its logs and read models."""

from __future__ import annotations

import asyncio
from contextlib import closing

import typer

from changeover.cli.exits import Exit, console, errors_reported, say, tell
from changeover.cli.options import DatabaseOption, JsonOption, store_of, store_to_make
from changeover.cli.terminal.help import App

app = App("Create, upgrade and check the tables of a store.", no_args_is_help=True)


@app.command()
def upgrade(store: DatabaseOption = None) -> None:
    """Create the tables, or upgrade them.

    Run it while no older process uses the store.
    """
    with errors_reported():
        from changeover.errors import ChangeoverError, StoreUnavailable
        from changeover.stores.store import database_of, upgrade_store

        chosen = store_to_make(store)
        shown = database_of(chosen).shown
        try:
            with console(error=True).status(f"upgrading {shown}"):
                before, after = upgrade_store(chosen, _report)
        except ChangeoverError:
            raise
        except Exception as error:  # each driver has errors of its own
            raise StoreUnavailable(f"the store {shown} cannot be upgraded: {error}") from error
        if before == after:
            say(f"{shown}: already at {after}")
        else:
            say(f"{shown}: {'created' if before is None else f'upgraded from {before}'}, now at {after}")


def _report(done: int, total: int, migration: str) -> None:
    """Print a line about a migration that has run."""
    tell(f"{done} of {total}: {migration.removeprefix('Migration ').rstrip('.')}")


@app.command()
def current(store: DatabaseOption = None) -> None:
    """Print the version of the tables.

    Exit code 1 if this version of changeover cannot read them.
    """
    with errors_reported():
        from changeover.stores.sql.schema import VERSION
        from changeover.stores.views import existing, version_of

        found = version_of(existing(store_of(store)))
    say(found or "no tables")
    if found != VERSION:
        tell(f"changeover: this version reads tables of version {VERSION}; see: changeover db upgrade --help")
        raise typer.Exit(Exit.FAILED)


@app.command()
def check(store: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Read every conversation from its log, and compare the read models with it.

    Exit code 1 if the tables are not current or a conversation is damaged.
    """
    from changeover.cli.terminal.render import print_json

    with errors_reported():
        count, faults = asyncio.run(_checked(store))
    if as_json:
        print_json({"conversations": count, "faults": faults})
    else:
        for id, fault in faults.items():
            say(f"{id}: {fault}")
        say(f"{count} conversations, {len(faults) or 'none'} of them with a fault")
    if faults:
        raise typer.Exit(Exit.FAILED)


async def _checked(store: str | None) -> tuple[int, dict[str, str]]:
    from changeover.stores.views import open_views

    count, faults = 0, {}
    out = console(error=True)
    with closing(open_views(store_of(store))) as views, out.status("reading") as status:
        async for id, fault in views.checked():
            count += 1
            if count % 100 == 0:
                status.update(f"{count} conversations read")
            if fault:
                faults[id] = fault
    return count, faults
