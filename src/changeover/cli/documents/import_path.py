"""Python objects by import path: `file.py:name` or `package.module:name`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from changeover.cli.exits import Mistake


def module_at(address: str, folder: Path) -> ModuleType:
    """The module of a file or of a dotted name, looked for from this folder on; raises Mistake."""
    _look_in(folder)
    if not address.endswith(".py"):
        return _guarded(address, lambda: _named(address))
    path = folder / address
    if not path.is_file():
        raise Mistake(f"there is no file {path}")
    _look_in(path.resolve().parent)
    return _guarded(str(path), lambda: _from_file(path.resolve()))


def attribute_of(module: ModuleType, name: str, address: str) -> Any:
    """Something in a module; raises Mistake that says what is there instead."""
    if hasattr(module, name):
        return getattr(module, name)
    # Its own functions and its objects, not what it imported.
    own = {other: value for other, value in vars(module).items() if not other.startswith("_")}
    there = [other for other, value in own.items() if getattr(value, "__module__", "") == module.__name__]
    there += [other for other, value in own.items() if type(value).__name__ == "Team"]
    raise Mistake(f"{address} has no {name!r}; it has: {', '.join(sorted(there)) or 'nothing that could be meant'}")


def split(address: str) -> tuple[str, str]:
    """The module and the name within it, which may be missing."""
    module, colon, name = address.rpartition(":")
    # A drive of Windows is no module.
    return (module, name) if colon and len(module) > 1 else (address, "")


def _named(name: str) -> ModuleType:
    if find_spec(name.partition(".")[0]) is None:
        raise Mistake(f"there is no module {name.partition('.')[0]!r} here or among what is installed")
    return import_module(name)


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


def _look_in(folder: Path) -> None:
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, place)


def _guarded(shown: str, load: Callable[[], ModuleType]) -> ModuleType:
    from changeover.errors import ChangeoverError

    try:
        return load()
    except (Mistake, ChangeoverError):
        raise
    except SyntaxError as error:
        raise Mistake(f"{error.filename or shown}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        # Where it happened is worth more than how Python got there.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise Mistake(f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: {error}") from error
    except SystemExit as error:
        raise Mistake(f"{shown} ends the program when it is imported; put that under `if __name__ == ...`") from error
