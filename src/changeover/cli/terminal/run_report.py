"""RunReport: the answer or error of a run, what the run waits for, the commands to type next, the exit code."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from changeover.agent.agent import Function
from changeover.cli.exits import Exit, console, error_text, say, tell
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.prompt import OPERANDS, USUAL, fitting_verbs, request_words
from changeover.cli.terminal.render import json_time, print_json_line
from changeover.cli.terminal.transcript import Transcript
from changeover.errors import ChangeoverError, ConversationNotFound
from changeover.facts import ApprovalRequest, RunResult, Ticket
from changeover.relay.stream import Recorded, RunFinished, StreamItem
from changeover.stores.address import without_password
from changeover.stores.sql.log import SqlLog

if TYPE_CHECKING:
    from changeover.team import Team

Items = AsyncGenerator[StreamItem, Any]


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
        self._page: Page | None = None
        """The transcript, which has the answer too, if it is shown."""
        self._interrupted = False

    def run(self, conversation: str, items: Callable[[], Items], as_json: bool) -> Exit:
        """Follow a stream to its end and print what came of it; returns the exit code.

        A terminal gets a transcript and a pipe the answer alone; with `as_json`, each event is a line of JSON. Of a
        conversation that the store has already, only new events are shown.
        """
        try:
            return asyncio.run(self._run(conversation, items, as_json))
        except KeyboardInterrupt:
            if not self._interrupted:  # before the run began
                raise
            return Exit.INTERRUPTED

    async def _run(self, conversation: str, items: Callable[[], Items], as_json: bool) -> Exit:
        try:
            if waiting := await lease_words(self._team, conversation):
                tell(waiting)
            result = await self._followed(items(), await self._last_seq(conversation), as_json)
        except ChangeoverError as error:
            self._print_error(error, as_json)
            return Exit.FAILED
        except asyncio.CancelledError:  # Ctrl-C. A tool that cannot be stopped may keep the process a while longer.
            self._interrupted = await self._last_seq(conversation) > 0
            if self._interrupted:
                tell("\nInterrupted; everything recorded is kept. To continue:")
                tell(f"  {self._commands.resume(conversation)}")
            raise
        finally:
            await self._team.close()
        if as_json:
            print_json_line({"event": "result", **result_json(result)})
        else:
            self._print_result(result)
        if result.status == "waiting":
            return Exit.WAITING
        return Exit.FINE if result.status in self._success else Exit.FAILED

    async def _last_seq(self, conversation: str) -> int:
        """The `seq` of the last event in the store; 0 if the conversation is new."""
        try:
            return (await self._team.history(conversation))[-1].seq
        except ConversationNotFound:
            return 0

    async def _followed(self, items: Items, after: int, as_json: bool) -> RunResult:
        out = console()
        if out.is_terminal and not as_json:
            self._page = Page(out, self._team.roster.seats)
            transcript = Transcript(self._page, self._team.roster)
            transcript.seq = after
            return await transcript.show(items)
        async for item in items:
            if isinstance(item, RunFinished):
                return item.result
            if as_json and isinstance(item, Recorded) and item.seq > after:
                print_json_line(event_json(item))
        raise AssertionError("a stream ends with its result")

    def worker_lines(self, result: RunResult) -> Iterator[str]:
        """The tickets that wait for a worker, and the command that starts one."""
        waiting: dict[str, list[str]] = {}
        for ticket in tickets_of(result):
            waiting.setdefault(ticket.agent, []).append(ticket.id)
        if waiting:
            yield f"The conversation {result.conversation_id} waits for a worker:"
        served = [agent for agent in waiting if self._can_work(agent)]
        for agent, ids in waiting.items():
            own = "" if agent in served else ", which has no model: a program of yours must claim it"
            yield f"  {', '.join(ids)} for {agent}{own}"
        if served:
            yield f"    {self._commands.serve(served)}"

    def _can_work(self, agent: str) -> bool:
        """True if `changeover worker` can serve this member."""
        return self._team.thinks(agent) or isinstance(self._team.roster.seats.get(agent), Function)

    def _print_error(self, error: ChangeoverError, as_json: bool) -> None:
        tell(f"changeover: {error_text(error)}")
        if as_json:
            print_json_line({"event": "error", **error_json(error)})
        elif error.result is not None:
            tell(f"To retry the failed step: {self._commands.resume(error.result.conversation_id)}")

    def _print_result(self, result: RunResult) -> None:
        if result.text.strip() and self._page is None:
            say(result.text.rstrip())
        if result.status == "waiting":
            if self._page is not None and self._page.lines:
                tell("")
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


async def lease_words(team: Team, conversation: str) -> str:
    """Why a run may have to wait for another process, and how long at most; empty if no other process has it."""
    held = await team.log.holder(conversation) if isinstance(team.log, SqlLog) else None
    if held is None:
        return ""
    host, pid, seconds = held
    if host == socket.gethostname() and not _is_alive(pid):
        return f"Process {pid} has ended while it worked on {conversation}. This one continues in {seconds:.0f} s."
    return f"Process {pid} on {host} works on {conversation}. If it has died, this one continues in {seconds:.0f} s."


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True


def result_json(result: RunResult) -> dict[str, Any]:
    """A result for programs: its attributes, with the whole context and the ids of pending requests."""
    data: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    del data["handed"], data["variables"]
    data["output"] = data.pop("text")
    data["context"] = result.context
    data["pending"] = [{"id": each.id, "kind": each.kind, **msgspec.to_builtins(each)} for each in result.pending]
    return data


def event_json(recorded: Recorded) -> dict[str, Any]:
    """An event for programs: its type and fields, and where and when it was recorded."""
    place = {
        "seq": recorded.seq,
        "at": json_time(recorded.at),
        "conversation": recorded.conversation,
        "position": recorded.position,
        "active": recorded.agent,
    }
    return {**msgspec.to_builtins(recorded.event, enc_hook=str), **place}


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
