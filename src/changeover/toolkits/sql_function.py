"""SqlCallee: calls a function of a PostgreSQL database with bound arguments, in a transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changeover.agent.moves import UseTool, misfit_words
from changeover.relay.perform.callbacks import in_thread
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.result_text import NOTHING, CallFailed, TemporaryFailure, cut
from changeover.tools.run_context import RunContext
from changeover.tools.secret import text_form
from changeover.tools.sql_function import SqlFunction
from changeover.tools.tool import ToolDefinition
from changeover.tools.variable import Check, compile_variables

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

    from changeover.toolkits.connections import Connections

KEY = "changeover.idempotency_key"
LOOK_UP = """
SELECT p.proretset, p.prorettype = 'void'::regtype, p.proargnames,
       ARRAY(SELECT t.typcategory::text FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))
             WITH ORDINALITY AS a(type, place) JOIN pg_type t ON t.oid = a.type ORDER BY a.place)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.proname = %(function)s AND p.prokind = 'f'
  AND CASE WHEN %(schema)s = '' THEN pg_function_is_visible(p.oid) ELSE n.nspname = %(schema)s END
"""
"""What a function returns, and the names and categories of its arguments."""
TEMPORARY = ("08", "40", "53", "55P03", "57P")
"""Beginnings of SQLSTATE codes after which the same call may succeed."""


class SqlCallee:
    """One function of a database that a model may call."""

    def __init__(self, declared: SqlFunction, schema: dict[str, Any], check: Check, connections: Connections) -> None:
        self._declared, self._check = declared, check
        self._vault, self._databases = connections.vault, connections.databases
        definition = ToolDefinition(declared.name, declared.description, schema, read_only=declared.reads)
        self.tool = UseTool(declared, definition)
        self.repeatable = declared.reads

    @classmethod
    def compiled(cls, declared: SqlFunction, connections: Connections) -> SqlCallee | list[str]:
        """The callee, or a fault if psycopg is missing; `declared` has no faults of its own."""
        try:
            import psycopg  # noqa: F401
        except ImportError:
            return ["needs the package psycopg: pip install 'changeover[postgres]'"]
        return cls(declared, *compile_variables(declared.parameters), connections)

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        values = self._check(args)
        return misfit_words(self._declared.name, values) if isinstance(values, str) else ""

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call the function once. Raises TemporaryFailure, and CallFailed if it would fail again."""
        import psycopg

        values = self._check(args)
        if isinstance(values, str):
            return ToolOutcome(misfit_words(self._declared.name, values), ok=False)
        given = {name: value for name, value in values.items() if value is not None}
        if any("\0" in value for value in given.values() if isinstance(value, str)):
            raise CallFailed("a text has a NUL character, which PostgreSQL does not take")
        address = self._vault.resolve(self._declared.database)
        try:
            text = await in_thread(lambda: self._called(address, given, context.idempotency_key))
        except psycopg.Error as error:
            raise _failure(error) from error
        return ToolOutcome(cut(text, self._declared.max_result))

    def _called(self, address: str, values: dict[str, Any], key: str) -> str:
        """The result as JSON; blocks the calling thread."""
        declared = self._declared

        def prepare(connection: Connection[Any]) -> None:
            connection.read_only = declared.reads
            if declared.timeout is not None:
                limit = str(max(1, round(declared.timeout * 1_000)))
                connection.execute("SELECT set_config('statement_timeout', %s, true)", (limit,))
            connection.execute("SELECT set_config(%s, %s, true)", (KEY, key))

        with self._databases.lent(address, prepare) as connection:
            returns_set, is_void, arrays = self._signature(connection, values)
            bound = {name: _bound(value, name in arrays) for name, value in values.items()}
            rows = connection.execute(self._statement(values, is_void), bound).fetchmany(declared.max_rows + 1)
        if is_void:
            return NOTHING
        texts = ["null" if text is None else str(text) for (text,) in rows]
        return _listed(texts, declared.max_rows) if returns_set else texts[0]

    def _signature(self, connection: Connection[Any], values: dict[str, Any]) -> tuple[bool, bool, set[str]]:
        """True if the function returns a set, True if it returns nothing, and the names of its array arguments."""
        schema, function = self._declared.schema_and_function
        found = connection.execute(LOOK_UP, {"schema": schema, "function": function}).fetchall()
        fitting = [each for each in found if values.keys() <= set(each[2] or ())]
        if not fitting:
            named = f" that takes {', '.join(values)}" if found else ""
            raise CallFailed(f"the database has no function {self._declared.function or self._declared.name}{named}")
        returns_set, is_void, names, categories = fitting[0]
        arrays = {name for name, category in zip(names or (), categories, strict=False) if category == "A"}
        return returns_set, is_void, arrays

    def _statement(self, values: dict[str, Any], is_void: bool) -> Composed:
        from psycopg.sql import SQL, Identifier, Placeholder

        schema, function = self._declared.schema_and_function
        name = Identifier(schema, function) if schema else Identifier(function)
        arguments = SQL(", ").join(SQL("{} => {}").format(Identifier(each), Placeholder(each)) for each in values)
        # to_json of the row: PostgreSQL writes every type that it has, a scalar as itself and a record as an object.
        shown = SQL("NULL") if is_void else SQL("to_json(answer)::text")
        limit = SQL(str(self._declared.max_rows + 1))
        return SQL("SELECT {} FROM {}({}) AS answer LIMIT {}").format(shown, name, arguments, limit)


def _bound(value: Any, is_array: bool) -> str:
    """An argument as a text of unknown type, which PostgreSQL reads as the type that the function declares."""
    if not is_array or not isinstance(value, list):
        return text_form(value)
    return "{" + ",".join(_element(each) for each in value) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return _bound(value, True)
    escaped = text_form(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _listed(texts: list[str], most: int) -> str:
    if len(texts) <= most:
        return f"[{', '.join(texts)}]"
    return f"[{', '.join(texts[:most])}]\n[cut: the first {most} rows are shown]"


def _failure(error: Any) -> CallFailed:
    """The error of a database in the form in which a model reads it."""
    diagnosis = error.diag
    text = diagnosis.message_primary or str(error).splitlines()[0]
    more = "; ".join(part for part in (diagnosis.message_detail, diagnosis.message_hint) if part)
    state = error.sqlstate or ("08" if type(error).__name__ == "OperationalError" else "")
    kind = TemporaryFailure if state.startswith(TEMPORARY) else CallFailed
    return kind(cut(f"{text} ({more})" if more else text))
