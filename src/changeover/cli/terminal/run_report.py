"""RunReport: the answer or error of a run, what the run waits for, the commands to type next, the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from changeover.agent.agent import Function
from changeover.cli.exits import Exit, error_text, say, tell
from changeover.cli.terminal.prompt import OPERANDS, USUAL, fitting_verbs, request_words
from changeover.cli.terminal.render import console, print_json
from changeover.cli.terminal.transcript import Transcript
from changeover.errors import ChangeoverError
from changeover.facts import ApprovalRequest, RunResult, Ticket
from changeover.relay.stream import Recorded, RunFinished, StreamItem
from changeover.stores.address import without_password

if TYPE_CHECKING:
    from changeover.team import Team


class NextCommands:
    """The commands that a user can type next, for one team and one store (None: the default store)."""

    def __init__(self, team: str, store: str | None) -> None:
        self._team, self._store = team, store

    def resume(self, conversation: str) -> str:
        return self._typed("resume", self._team, conversation)

    def chat(self, conversation: str) -> str:
        return self._typed("chat", self._team, "--conversation", conversation)

    def decide(self, verb: str, approval: str, roles: Sequence[str] = ()) -> str:
        """`approvals VERB`, with the first of the roles that may decide."""
        role = ("--role", roles[0]) if roles else ()
        return self._typed("approvals", verb, approval, *OPERANDS[verb], "--team", self._team, *role)

    def serve(self, agents: Iterable[str]) -> str:
        return self._typed("worker", self._team, "--agents", ",".join(agents))

    def retry(self, ticket: str) -> str:
        return self._typed("handoffs", "retry", ticket)

    def _typed(self, *words: str) -> str:
        typed = shlex.join(["changeover", *words])
        if not self._store:
            return typed
        # A password is never printed.
        shown = "URL" if without_password(self._store) != self._store else shlex.quote(self._store)
        return f"{typed} --store {shown}"


class RunReport:
    """Reports on runs of one team; `success` are the statuses that end with exit code 0."""

    def __init__(self, team: Team, commands: NextCommands, success: Sequence[str] = ("completed",)) -> None:
        self._team, self._commands, self._success = team, commands, success

    async def print(self, work: Callable[[], Awaitable[RunResult]], as_json: bool) -> Exit:
        """Do the work, close the team, print the result or the error; returns the exit code."""
        try:
            result = await work()
        except ChangeoverError as error:
            self._print_error(error, as_json)
            return Exit.FAILED
        finally:
            await self._team.close()
        if as_json:
            print_json(result_json(result))
        else:
            self._print_result(result)
        if result.status == "waiting":
            return Exit.WAITING
        return Exit.FINE if result.status in self._success else Exit.FAILED

    def worker_lines(self, result: RunResult) -> Iterator[str]:
        """The tickets that wait for a worker, and the command that starts one."""
        waiting: dict[str, list[str]] = {}
        for ticket in tickets_of(result):
            waiting.setdefault(ticket.agent, []).append(ticket.id)
        if waiting:
            yield f"The conversation {result.conversation_id} waits for a worker:"
        served = [agent for agent in waiting if self._can_work(agent)]
        for agent, ids in waiting.items():
            own = "" if agent in served else ", which has no model: a program of yours must claim it (see Team.claim)"
            yield f"  {', '.join(ids)} for {agent}{own}"
        if served:
            yield f"    {self._commands.serve(served)}"

    def _can_work(self, agent: str) -> bool:
        """True if `changeover worker` can serve this member."""
        return self._team.thinks(agent) or isinstance(self._team.roster.seats.get(agent), Function)

    def _print_error(self, error: ChangeoverError, as_json: bool) -> None:
        tell(f"changeover: {error_text(error)}")
        if as_json:
            print_json(error_json(error))
        elif error.result is not None:
            tell(f"To retry the failed step: {self._commands.resume(error.result.conversation_id)}")

    def _print_result(self, result: RunResult) -> None:
        if result.text.strip():
            say(result.text.rstrip())
        if result.status == "waiting":
            for line in self._waiting_lines(result):
                tell(line)
        elif result.status == "cancelled":
            tell(f"changeover: the run of {result.conversation_id} was cancelled")

    def _waiting_lines(self, result: RunResult) -> Iterator[str]:
        if requests := requests_of(result):
            yield f"The conversation {result.conversation_id} waits for a person:"
        for request in requests:
            yield f"  {request_words(request)}"
            for verb in USUAL if request.kind == "approval" else fitting_verbs(request):
                yield f"    {self._commands.decide(verb, request.id, request.roles)}"
        yield from self.worker_lines(result)
        if tickets_of(result):
            yield "  then, for the result:"
            yield f"    {self._commands.resume(result.conversation_id)}"


def result_json(result: RunResult) -> dict[str, Any]:
    """A result for programs: its attributes, with the whole context and the ids of pending requests."""
    data: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    del data["handed"], data["variables"]
    data["output"] = data.pop("text")
    data["context"] = result.context
    data["pending"] = [{"id": each.id, "kind": each.kind, **msgspec.to_builtins(each)} for each in result.pending]
    return data


def error_json(error: ChangeoverError) -> dict[str, Any]:
    """An error for programs, with the result of the run if one was under way."""
    known = result_json(error.result) if error.result is not None else {"status": "failed"}
    return {**known, "error": {"type": type(error).__name__, "message": str(error)}}


def tickets_of(result: RunResult) -> list[Ticket]:
    """The tickets that wait for a worker."""
    return [each for each in result.pending if isinstance(each, Ticket)]


def requests_of(result: RunResult) -> list[ApprovalRequest]:
    """The requests that wait for a person."""
    return [each for each in result.pending if isinstance(each, ApprovalRequest)]


async def run_shown(team: Team, text: str, options: Mapping[str, Any]) -> RunResult:
    """Run a team on this text; on a terminal, its handoffs are printed on standard error meanwhile."""
    if not sys.stderr.isatty():
        return await team.run(text, **options)
    return await _shown(team.stream(text, **options))


async def resume_shown(team: Team, conversation: str, first: Callable[[], Awaitable[None]] | None = None) -> RunResult:
    """Resume a conversation after `first`; on a terminal, what is recorded from now on is printed meanwhile."""
    if sys.stderr.isatty():
        past = await team.history(conversation)
        return await _shown(team.follow(conversation, first), past[-1].seq)
    if first is not None:
        await first()
    return await team.resume(conversation)


async def _shown(items: AsyncIterator[StreamItem], after: int = 0) -> RunResult:
    transcript = Transcript(console(error=True), texts=False)
    async for item in items:
        if isinstance(item, RunFinished):
            return item.result
        if not isinstance(item, Recorded) or item.seq > after:
            transcript.item(item)
        else:
            transcript.recall(item)
    raise AssertionError("a stream ends with its result")
