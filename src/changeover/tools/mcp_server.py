"""McpServer: the tools of an MCP server, which runs as a process or is reached by HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from changeover.copies import FrozenDict
from changeover.tools.secret import REFERENCE, literal_faults, url_faults
from changeover.tools.tool import CallOptions

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}")
ODD = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME = 64


@dataclass(frozen=True)
class McpServer(CallOptions):
    """The tools of an MCP server. Give `command` for one that runs as a process, or `url` for one that is reached by
    streamable HTTP. There is one process or session per server, shared by all agents and closed with the team.

    The options of a tool hold for each tool of the server; `read_only=None` takes its `readOnlyHint`.
    """

    name: str
    """Its tools are called `name_tool`, unless there is another `prefix`."""
    _: KW_ONLY
    command: Sequence[str] = ()
    """The program and its arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Its environment, with secrets by reference; it inherits only PATH, HOME and the like."""
    cwd: str = ""
    """The folder in which the process runs; that of this process if empty."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of each request to the `url`, with secrets by reference."""
    prefix: str | None = None
    """What the names of its tools begin with; None takes the name of the server, and "" leaves them as they are."""
    include: Sequence[str] = ()
    """The tools that agents get, by name or pattern, such as "list_*"; all if empty."""
    exclude: Sequence[str] = ()
    """The tools that agents do not get, by name or pattern."""
    connect_timeout: float = 20.0
    """Seconds until the server has started and listed its tools."""
    timeout: float | None = 60.0

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's lists and dicts must not reach the declaration.
        for name in ("env", "headers"):
            if isinstance(value := getattr(self, name), dict):
                object.__setattr__(self, name, FrozenDict(value))
        for name in ("command", "include", "exclude"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    def offers(self, tool: str) -> bool:
        """True if agents get this tool of the server."""
        wanted = not self.include or any(fnmatchcase(tool, pattern) for pattern in self.include)
        return wanted and not any(fnmatchcase(tool, pattern) for pattern in self.exclude)

    def called(self, tool: str) -> str:
        """The name by which models call a tool of the server; characters that providers refuse become underscores."""
        prefix = self.name if self.prefix is None else self.prefix
        return ODD.sub("_", f"{prefix}_{tool}" if prefix else tool)[:LONGEST_NAME]

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from self.option_faults()
        prefix = self.name if self.prefix is None else self.prefix
        if not isinstance(self.name, str) or not self.name or (prefix and not NAME.fullmatch(prefix)):
            yield f"has the prefix {prefix!r}; use letters, digits, '_' and '-', at most 32"
        if bool(self.command) == bool(self.url):
            yield "needs command=[…], the program and its arguments, or url=, the address of the server"
        elif self.url:
            yield from self._url_faults()
        yield from self._list_faults()
        for place in ("env", "headers"):
            if not isinstance(getattr(self, place), Mapping):
                yield f"has {place} of type {type(getattr(self, place)).__name__}; give a mapping of names to texts"
            else:
                yield from literal_faults(place, getattr(self, place))
        if not isinstance(self.connect_timeout, int | float) or self.connect_timeout <= 0:
            yield f"has connect_timeout={self.connect_timeout!r}; use a number of seconds above 0"

    def _url_faults(self) -> Iterator[str]:
        parts = urlsplit(str(self.url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield f"has url={self.url!r}; give one that begins with https:// or http://"
        elif REFERENCE.search(self.url):
            yield "has a secret in its url; put it into headers="
        yield from url_faults("url", self.url)

    def _list_faults(self) -> Iterator[str]:
        for name in ("command", "include", "exclude"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(each, str) for each in value):
                yield f"has {name}={value!r}; give a list of texts"
        if not isinstance(self.command, str):
            yield from literal_faults("command", self.command)
