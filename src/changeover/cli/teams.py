"""Load the team that the argument TEAM names, from Python or YAML, and put it on a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from changeover.cli.documents.import_path import attribute_of, module_at, split
from changeover.cli.exits import Mistake
from changeover.cli.options import store_to_make

if TYPE_CHECKING:
    from changeover.relay.ports import World
    from changeover.stores.store import Store
    from changeover.team import Team

YAML = (".yaml", ".yml")


def load_team(address: str, folder: Path | None = None) -> Team:
    """The team at this address; raises Mistake, or MisconfiguredError if it cannot work."""
    from changeover.errors import MisconfiguredError

    folder = folder or Path()
    try:
        if address.endswith(YAML):
            from changeover.cli.documents.team_file import read_team

            return read_team(folder / address)
        return _from_python(address, folder)
    except MisconfiguredError as error:
        raise MisconfiguredError(*(f"{address}: {fault}" for fault in error.faults)) from error


def working_team(address: str, store: str | None, handoffs: bool = True) -> tuple[Team, Store | None]:
    """The team, on a store that lasts; and that store, unless the team brought a log of its own."""
    from changeover.stores.store import Store

    team = load_team(address)
    own = team._declared.store
    chosen: Any = store_to_make(store) if store or own is None else own
    shown = Store(chosen) if isinstance(chosen, str) else chosen
    return team.on(chosen, None if handoffs else _alone), shown if isinstance(shown, Store) else None


def _alone(world: World) -> World:
    """The same with agents that work alone, whatever the team and the environment say."""
    from msgspec.structs import replace

    return replace(world, roster=replace(world.roster, handoffs_enabled=False))


def is_team(address: str) -> bool:
    """Whether this can only be a team's address; a dotted name could also be the id of a conversation."""
    return address.endswith((".py", *YAML)) or ":" in address


def _from_python(address: str, folder: Path) -> Team:
    where, name = split(address)
    module = module_at(where, folder)
    if not name:
        return _only_one(vars(module), where)
    found = attribute_of(module, name, where)
    return _checked(found, address)


def _only_one(names: dict[str, Any], where: str) -> Team:
    from changeover.team import Team

    teams = {name: value for name, value in names.items() if isinstance(value, Team)}
    if len({id(team) for team in teams.values()}) == 1:
        return next(iter(teams.values()))
    if teams:
        raise Mistake(f"{where} has several teams: {', '.join(sorted(teams))}; say which, as in {where}:{min(teams)}")
    raise Mistake(f"{where} has no Team; if a function makes it, name that: {where}:function")


def _checked(found: Any, address: str) -> Team:
    from changeover.errors import ChangeoverError
    from changeover.team import Team

    if callable(found) and not isinstance(found, Team):
        try:
            found = found()
        except ChangeoverError:
            raise
        except Exception as error:
            raise Mistake(f"{address}() raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Team):
        raise Mistake(f"{address} is no Team, and gives none: it is of type {type(found).__name__}")
    return found
