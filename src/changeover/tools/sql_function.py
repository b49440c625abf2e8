"""SqlFunction: one function of a PostgreSQL database as a tool, called directly or through PostgREST."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from changeover.copies import FrozenDict
from changeover.tools.http_tool import Auth, HttpTool
from changeover.tools.secret import REFERENCE, url_faults
from changeover.tools.tool import CallOptions
from changeover.tools.variable import Variable, variable_faults

FUNCTION = re.compile(r"(?:(?P<schema>[^.\x00]{1,63})\.)?(?P<function>[^.\x00]{1,63})")


@dataclass(frozen=True)
class SqlFunction(CallOptions):
    """A PostgreSQL function that a model may call, with typed and bound arguments.

    Give `database`, the address of a database as a reference such as "${DATABASE_URL}", or `rest`, the address of a
    PostgREST server. The call runs in a read-only transaction unless `read_only=False`. The function can read the
    idempotency key of the call by `current_setting('changeover.idempotency_key')`.
    """

    name: str
    """The name of the tool."""
    _: KW_ONLY
    database: str = ""
    rest: str = ""
    function: str = ""
    """The function, such as "shop.find_orders"; by default it has the name of the tool."""
    description: str = ""
    """What the model reads of it."""
    parameters: Sequence[Variable] = ()
    """Named as the arguments of the function."""
    max_rows: int = 100
    """How many rows the model reads."""
    auth: Auth | None = None
    """For PostgREST: credentials, as in an HttpTool."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """For PostgREST: further headers of the request."""
    hosts: Sequence[str] = ()
    """For PostgREST: the hosts that may be reached; by default only that of `rest`."""
    allow_private: bool = False
    """For PostgREST: True if private, loopback and link-local addresses may be reached."""
    read_only: bool | None = True
    timeout: float | None = 30.0

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's lists and dicts must not reach the declaration.
        if isinstance(self.headers, dict):
            object.__setattr__(self, "headers", FrozenDict(self.headers))
        for name in ("parameters", "hosts"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    @property
    def reads(self) -> bool:
        """True if it runs in a read-only transaction."""
        return self.read_only is not False

    @property
    def schema_and_function(self) -> tuple[str, str]:
        """The schema, empty if none is declared, and the name of the function."""
        found = FUNCTION.fullmatch(self.function or self.name)
        return (found["schema"] or "", found["function"]) if found else ("", "")

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from self.option_faults()
        if not FUNCTION.fullmatch(self.function or self.name):
            yield f"has function={self.function!r}; give a name, such as 'find_orders' or 'shop.find_orders'"
        if bool(self.database) == bool(self.rest):
            yield "needs database=, a reference such as '${DATABASE_URL}', or rest=, the address of a PostgREST server"
        elif self.rest:
            yield from self.request().faults()
            return
        elif not REFERENCE.search(self.database):
            yield from url_faults("database", self.database)
        if not isinstance(self.max_rows, int) or self.max_rows < 1:
            yield f"has max_rows={self.max_rows!r}; use a number of rows, 1 or more"
        if not isinstance(self.parameters, Sequence) or not all(isinstance(each, Variable) for each in self.parameters):
            yield f"has parameters={self.parameters!r}; give a list of Variable(…)s"
        else:
            yield from (fault.replace("variable", "parameter") for fault in variable_faults(self.parameters))

    def request(self) -> HttpTool:
        """The request that calls it through PostgREST."""
        schema, function = self.schema_and_function
        profile = {"Content-Profile": schema} if schema else {}
        return HttpTool(
            self.name,
            method="POST",
            url=f"{self.rest.rstrip('/')}/rpc/{function}",
            description=self.description,
            parameters=self.parameters,
            query={"limit": self.max_rows},
            headers={"Accept": "application/json", **profile, **self.headers},
            body={} if not self.parameters else None,
            auth=self.auth,
            hosts=self.hosts,
            allow_private=self.allow_private,
            timeout=self.timeout,
            retries=self.retries,
            read_only=self.reads,
            at_most_once=self.at_most_once,
            max_result=self.max_result,
            approval=self.approval,
            when=self.when,
        )
