"""Report of a run: its answer or error, what it waits for, the commands to type next, the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import typer

from changeover.agent.agent import Function
from changeover.cli.exits import Exit, lined, tell
from changeover.cli.terminal.prompt import MORE, USUAL, fitting, request_words
from changeover.cli.terminal.render import clean, print_json
from changeover.errors import ChangeoverError
from changeover.facts import ApprovalRequest, RunResult, Ticket

if TYPE_CHECKING:
    from changeover.team import Team


class Place:
    """Where a conversation is found again: what to type after the name of a command."""

    def __init__(self, team: str, store: str | None) -> None:
        self._team, self._store = team, store

    def again(self, verb: str, conversation: str) -> str:
        """The command that goes on with it."""
        named = ("--conversation", conversation) if verb == "chat" else (conversation,)
        return self._typed(verb, self._team, *named)

    def deciding(self, verb: str, approval: str, roles: Sequence[str] = ()) -> str:
        """The command that decides, in one of these roles if it takes one."""
        role = ("--role", roles[0]) if roles else ()
        return self._typed("approvals", verb, approval, *MORE[verb], "--team", self._team, *role)

    def serving(self, agents: Iterable[str]) -> str:
        """The command that has these agents work."""
        return self._typed("worker", self._team, "--agents", ",".join(agents))

    def retrying(self, ticket: str) -> str:
        """The command that lets workers take it again."""
        return self._typed("handoffs", "retry", ticket)

    def _typed(self, *words: str) -> str:
        store = f" --store {self._shown}" if self._store else ""
        return shlex.join(["changeover", *words]) + store

    @property
    def _shown(self) -> str:
        """The store as it may be printed: whoever has its password knows what to type."""
        assert self._store is not None
        return "URL" if urlsplit(self._store).password else shlex.quote(self._store)


async def told(
    team: Team,
    work: Callable[[], Awaitable[RunResult]],
    place: Place,
    as_json: bool,
    fine: Sequence[str] = ("completed",),
) -> Exit:
    """Do the work, print what came of it, close the team; the exit code says which it was."""
    try:
        result = await work()
    except ChangeoverError as error:
        tell(f"changeover: {lined(error)}")
        if as_json:
            print_json(failed_json(error))
        elif error.result is not None:
            tell(f"To try the failed step again: {place.again('resume', error.result.conversation_id)}")
        return Exit.FAILED
    finally:
        await team.close()
    if as_json:
        print_json(result_json(result))
    else:
        _print(result, team, place)
    if result.status == "waiting":
        return Exit.WAITING
    return Exit.FINE if result.status in fine else Exit.FAILED


def finish(code: Exit) -> None:
    """End the command with this code."""
    raise typer.Exit(code)


def result_json(result: RunResult) -> dict[str, Any]:
    """A result for programs: its attributes, with the whole context and the ids of what is awaited."""
    data: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    del data["handed"], data["variables"]
    data["context"] = result.context
    data["pending"] = [{"id": each.id, "kind": each.kind, **msgspec.to_builtins(each)} for each in result.pending]
    return data


def failed_json(error: ChangeoverError) -> dict[str, Any]:
    """A failure for programs; if a run was under way, all that is known of it."""
    known = result_json(error.result) if error.result is not None else {"status": "failed"}
    return {**known, "error": {"type": type(error).__name__, "message": str(error)}}


def awaited_workers(result: RunResult, team: Team, place: Place) -> Iterator[str]:
    """What waits until somebody takes it, and the command that has workers do so."""
    waiting: dict[str, list[str]] = {}
    for ticket in tickets_of(result):
        waiting.setdefault(ticket.agent, []).append(ticket.id)
    if waiting:
        yield f"The conversation {result.conversation_id} waits for a worker:"
    served = [agent for agent in waiting if _can_work(agent, team)]
    for agent, ids in waiting.items():
        own = "" if agent in served else ", by a program of yours: it has no model (see Team.claim)"
        yield f"  {agent} is to take {', '.join(ids)}{own}"
    if served:
        yield f"    {place.serving(served)}"


def _can_work(agent: str, team: Team) -> bool:
    """Whether a worker can do what this member is to do."""
    return team.thinks(agent) or isinstance(team.roster.seats.get(agent), Function)


def tickets_of(result: RunResult) -> list[Ticket]:
    """What waits until somebody takes it."""
    return [each for each in result.pending if isinstance(each, Ticket)]


def requests_of(result: RunResult) -> list[ApprovalRequest]:
    """What waits for a person."""
    return [each for each in result.pending if isinstance(each, ApprovalRequest)]


def _print(result: RunResult, team: Team, place: Place) -> None:
    if result.output.strip():
        typer.echo(clean(result.output.rstrip()))
    if result.status == "waiting":
        for line in _awaited(result, team, place):
            tell(line)
    elif result.status == "cancelled":
        tell(f"changeover: the run of {result.conversation_id} was cancelled")


def _awaited(result: RunResult, team: Team, place: Place) -> Iterator[str]:
    if requests := requests_of(result):
        yield f"The conversation {result.conversation_id} waits for a person:"
    for request in requests:
        yield f"  {request_words(request)}"
        for verb in USUAL if request.kind == "approval" else fitting(request):
            yield f"    {place.deciding(verb, request.id, request.roles)}"
    yield from awaited_workers(result, team, place)
    if tickets_of(result):
        yield "  and when that is done, for what came of it:"
        yield f"    {place.again('resume', result.conversation_id)}"
