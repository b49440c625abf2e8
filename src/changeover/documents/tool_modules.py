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
        """The modules of a comma-separated list, as in VARIABLE."""
        return cls([name for part in text.split(",") if (name := part.strip())], load)

    @property
    def listed(self) -> tuple[str | ModuleType, ...]:
        """The modules, as they were listed."""
        return tuple(self._modules.values())

    def __call__(self, module: str, name: str) -> Any:
        """The function of this name that a listed module defines; raises ImportError."""
        if module not in self._modules:
            listed = ", ".join(self._modules) or "none"
            raise ImportError(
                f"{module!r} is not among the modules that documents may name ({listed}): see tool_modules, {VARIABLE}"
            )
        found = self._loaded(module)
        if (value := defined(found).get(name)) is None:
            raise ImportError(f"{module} defines no function {name!r}; it has: {', '.join(sorted(defined(found)))}")
        return value

    def path_of(self, value: Any) -> str:
        """The import path of a function, or of the tool that is made of it; empty if no listed module defines it."""
        module = getattr(value.function if isinstance(value, Tool) else value, "__module__", "")
        if module not in self._modules:
            return ""
        names = defined(self._loaded(module))
        exact = [name for name, each in names.items() if each is value]
        behind = [name for name, each in names.items() if isinstance(each, Tool) and each.function is value]
        return f"{module}:{(exact or behind)[0]}" if exact or behind else ""

    def _loaded(self, module: str) -> ModuleType:
        listed = self._modules[module]
        return listed if isinstance(listed, ModuleType) else self._load(module)


def defined(module: ModuleType) -> dict[str, Any]:
    """The public functions, tools and classes that a module defines, by name.

    Not what the module itself imports: that would open every library to the document.
    """
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and _is_own(value.function if isinstance(value, Tool) else value, module)
    }


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def module_faults(listed: object) -> list[str]:
    """The faults of the declaration `tool_modules=…` of a team."""
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        return [f"the team has tool_modules={listed!r}; give a list of modules, or of their names"]
    wrong = [each for each in listed if not isinstance(each, str | ModuleType) or not each]
    return [f"the team has {each!r} in tool_modules; give a module, or its name" for each in wrong]
