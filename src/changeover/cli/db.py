"""Command `db`: upgrade a store's tables, show their version, check that every record can be read."""

from __future__ import annotations

import asyncio
from contextlib import closing

import typer

from changeover.cli.exits import Exit, plainly, tell
from changeover.cli.options import JsonOption, StoreOption, store_of, store_to_make

app = typer.Typer(help="The store: its tables, and whether all it holds can be read.", no_args_is_help=True)


@app.command()
def upgrade(store: StoreOption = None) -> None:
    """Make the tables, or bring them up to date. Do so while no older process uses the store."""
    with plainly():
        from changeover.errors import ChangeoverError, StoreUnavailable
        from changeover.stores.store import database_of, upgrade_store

        chosen = store_to_make(store)
        shown = database_of(chosen).shown
        try:
            before, after = upgrade_store(chosen)
        except ChangeoverError:
            raise
        except Exception as error:  # of whichever driver it is
            raise StoreUnavailable(f"the store {shown} cannot be upgraded: {error}") from error
        if before == after:
            typer.echo(f"{shown}: already at {after}")
        else:
            typer.echo(f"{shown}: {'made' if before is None else f'brought from {before}'}, now at {after}")


@app.command()
def current(store: StoreOption = None) -> None:
    """Print the version of the tables. Exit code 1 unless this version of changeover reads it."""
    with plainly():
        from changeover.stores.sql.schema import VERSION
        from changeover.stores.views import existing, version_of

        found = version_of(existing(store_of(store)))
    typer.echo(found or "no tables")
    if found != VERSION:
        tell(f"changeover: this version reads tables of version {VERSION}; see: changeover db upgrade --help")
        raise typer.Exit(Exit.FAILED)


@app.command()
def check(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Read every conversation from its log. Exit code 1 if the tables are not current or one cannot be read."""
    from changeover.cli.terminal.render import print_json

    with plainly():
        count, faults = asyncio.run(_checked(store))
    if as_json:
        print_json({"conversations": count, "faults": faults})
    else:
        for id, fault in faults.items():
            typer.echo(f"{id}: {fault}")
        typer.echo(f"{count} conversations, {len(faults) or 'none'} of them with a fault")
    if faults:
        raise typer.Exit(Exit.FAILED)


async def _checked(store: str | None) -> tuple[int, dict[str, str]]:
    from changeover.cli.terminal.render import console
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
