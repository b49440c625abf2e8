"""The team that the argument TEAM names: imported from Python, read from YAML or declared by a store."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from changeover.cli.exits import Mistake
from changeover.cli.options import store_of, store_to_make

if TYPE_CHECKING:
    from changeover.relay.ports.engine import EngineFactory
    from changeover.relay.ports.world import World
    from changeover.stores.store import Store
    from changeover.team import Team

YAML = (".yaml", ".yml")
STORE = "store"
"""The address of the team that a store declares; `store:NAME` if it declares several."""


def load_team(address: str, folder: Path | None = None, store: str | None = None) -> Team:
    """The team at this address; raises Mistake, or MisconfiguredError if its declarations are wrong."""
    from changeover.documents.yaml_value import DocumentError
    from changeover.errors import MisconfiguredError

    if not address.strip():
        raise Mistake("TEAM is empty; give a file, such as team.py")
    where, _, name = address.partition(":")
    if where == STORE:
        return declared_team(store_of(store), name)
    build = _from_yaml if address.endswith(YAML) else _from_python
    try:
        return build(address, folder or Path())
    except DocumentError:
        raise  # its faults name the file
    except MisconfiguredError as error:
        raise MisconfiguredError(*(f"{address}: {fault}" for fault in error.faults)) from error


def working_team(
    address: str, store: str | None, handoffs: bool = True, engine: EngineFactory | None = None
) -> tuple[Team, Store | None]:
    """The team on a durable store, and that store; None if the team brought a log of its own."""
    from changeover.stores.store import Store

    team = load_team(address, store=store)
    own = team.declared.store
    chosen: Any = store_to_make(store) if store or own is None else own
    opened = Store(chosen) if isinstance(chosen, str) else chosen
    watch = None if handoffs else _without_handoffs
    return team.on(chosen, watch, engine=engine), opened if isinstance(opened, Store) else None


def is_team(address: str) -> bool:
    """True if this can only be the address of a team; a dotted name may also be a conversation's id."""
    return address.endswith((".py", *YAML)) or ":" in address or address == STORE


def declared_team(store: Store, name: str = "", *, agents: bool = True) -> Team:
    """The team that a store declares; raises Mistake if it declares several and no name is given, or no `agents`."""
    from changeover.cli.declarations import listed_modules
    from changeover.team import Team

    found = asyncio.run(_declared_names(store, agents))
    if name and name not in found:
        raise Mistake(f"the store declares no team {name!r}; there are: {', '.join(found)}")
    if not name and len(found) > 1:
        raise Mistake(f"the store declares several teams: {', '.join(found)}; say which, as in {STORE}:{found[0]}")
    return Team(name=name or found[0], store=store, tool_modules=listed_modules(Path()).listed)


async def _declared_names(store: Store, agents: bool) -> list[str]:
    """The names of the teams that a store declares."""
    from changeover.ids import DEFAULT_TEAM
    from changeover.stores.store import open_log
    from changeover.stores.views import existing

    existing(store)
    log = open_log(store)
    try:
        rows = await log.declarations.listed()
    finally:
        await log.close()
    if agents and not any(each.kind == "agent" for each in rows):
        raise Mistake("the store declares no agents; name another TEAM, or add some with `changeover agents add`")
    return [each.name for each in rows if each.kind == "team"] or [DEFAULT_TEAM]


def _without_handoffs(world: World) -> World:
    """The same world with handoffs switched off, whatever the team and the environment say."""
    from msgspec.structs import replace

    return replace(world, roster=replace(world.roster, handoffs_enabled=False))


def _from_yaml(address: str, folder: Path) -> Team:
    from changeover.cli.declarations import Text, listed_modules
    from changeover.documents.team_document import read_team
    from changeover.team import Team

    file = folder / address
    modules = listed_modules(file.parent)
    document = read_team(Text.of_file(str(file)).text, str(file), modules, file.parent)
    return Team(document.members, **document.options, tool_modules=modules.listed)


def _from_python(address: str, folder: Path) -> Team:
    where, name = _split(address)
    module = module_at(where, folder)
    if not name:
        return _only_team(vars(module), where)
    return _checked(attribute_of(module, name, where), address)


def _split(address: str) -> tuple[str, str]:
    """The module and the name within it, which may be empty."""
    module, colon, name = address.rpartition(":")
    # The drive of a Windows path is not a module.
    return (module, name) if colon and len(module) > 1 else (address, "")


def _only_team(names: dict[str, Any], where: str) -> Team:
    from changeover.team import Team

    teams = {name: value for name, value in names.items() if isinstance(value, Team)}
    if len({id(team) for team in teams.values()}) == 1:
        return next(iter(teams.values()))
    if teams:
        raise Mistake(f"{where} has several teams: {', '.join(sorted(teams))}; say which, as in {where}:{min(teams)}")
    raise Mistake(f"{where} has no Team; if a function returns it, name the function: {where}:function")


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
        raise Mistake(f"{address} is not a Team and does not return one: it is of type {type(found).__name__}")
    return found


def module_at(address: str, folder: Path) -> ModuleType:
    """The module of a file or of a dotted name, relative to this folder; raises Mistake."""
    _search_in(folder)
    if not address.endswith(".py"):
        return _guarded(address, lambda: _named(address))
    path = folder / address
    if not path.is_file():
        close = get_close_matches(path.name, [each.name for each in path.parent.glob("*.py")], 1)
        raise Mistake(f"there is no file {path}{f'; did you mean {path.with_name(close[0])}?' if close else ''}")
    _search_in(path.resolve().parent)
    return _guarded(str(path), lambda: _from_file(path.resolve()))


def attribute_of(module: ModuleType, name: str, address: str) -> Any:
    """The object of this name in a module; raises Mistake that lists the objects it has."""
    if hasattr(module, name):
        return getattr(module, name)
    from changeover.team import Team

    # Functions that the module defines and teams that it builds, not names that it imports.
    public = {other: value for other, value in vars(module).items() if not other.startswith("_")}
    own = [
        other
        for other, value in public.items()
        if isinstance(value, Team) or getattr(value, "__module__", "") == module.__name__
    ]
    raise Mistake(f"{address} has no {name!r}; it has: {', '.join(sorted(own)) or 'no function and no team'}")


def _named(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise  # a module that this one imports
        missing = f"there is no module {error.name!r} here or among the installed packages"
        raise Mistake(f"{missing}; the name of a file ends in .py or .yaml") from error


def _from_file(path: Path) -> ModuleType:
    # Under its own name, as `import` would: two files of a project that import it get one module, not two.
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path:
        return known
    name = path.stem if known is None else f"_changeover_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Mistake(f"{path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_in(folder: Path) -> None:
    if (entry := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, entry)


def _guarded(shown: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Load a module; whatever it raises becomes a Mistake with file and line."""
    from changeover.errors import ChangeoverError

    try:
        return load()
    except (Mistake, ChangeoverError):
        raise
    except SyntaxError as error:
        raise Mistake(f"{error.filename or shown}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise Mistake(f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: {error}") from error
    except SystemExit as error:
        raise Mistake(f"{shown} ends the program when it is imported; put that under `if __name__ == ...`") from error
