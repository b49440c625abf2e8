"""ToolModules: the modules whose functions a document may name. Data never chooses which code is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from changeover.tools.tool import Tool

VARIABLE = "CHANGEOVER_TOOL_MODULES"
"""The environment variable in which an operator lists the modules for documents that commands read."""


class ToolModules:
    """An importer that knows only the modules that a person has listed.

    `listed` are their names, or the modules themselves; `load` imports one by its name.
    """

    def __init__(self, listed: Sequence[str | ModuleType], load: Callable[[str], ModuleType] = import_module) -> None:
        self._modules = {each.__name__ if isinstance(each, ModuleType) else each: each for each in listed}
        self._load = load

    @classmethod
    def of_text(cls, text: str, load: Callable[[str], ModuleType] = import_module) -> ToolModules:
        """Those of a list with commas, as it stands in VARIABLE."""
        return cls([name for part in text.split(",") if (name := part.strip())], load)

    def __call__(self, module: str, name: str) -> Any:
        """The function of this name that a listed module defines; raises ImportError."""
        if module not in self._modules:
            listed = ", ".join(self._modules) or "none"
            raise ImportError(f"{module!r} is not among the modules that documents may name ({listed}): see {VARIABLE}")
        listed_as = self._modules[module]
        found = listed_as if isinstance(listed_as, ModuleType) else self._load(module)
        value = getattr(found, name, None)
        # Not what the module itself imports: it would open every library to the document.
        function = value.function if isinstance(value, Tool) else value
        if name.startswith("_") or not callable(function) or getattr(function, "__module__", "") != found.__name__:
            raise ImportError(f"{module} defines no function {name!r}; {_defined(found)}")
        return value


def _defined(module: ModuleType) -> str:
    """The public functions that a module defines, in words."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value.function if isinstance(value, Tool) else value, "__module__", "") == module.__name__
    ]
    return f"it has: {', '.join(sorted(own)) or 'none'}"
