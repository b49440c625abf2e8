"""Store: calls of the store's ports, by which the command line works with a server as with a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import Path, Request
from fastapi.responses import Response
from msgspec.structs import replace

from changeover.errors import ConversationNotFound, MisconfiguredError
from changeover.facts import HandoffRecord
from changeover.guards.approval import Decision
from changeover.ids import worker_of
from changeover.relay.context_flow import ValueFlow
from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.queue import Queued
from changeover.relay.ports.tokens import Audited
from changeover.server.access import Caller, Role
from changeover.server.problems import Problem
from changeover.server.resource import Resource, Served, Who, audited
from changeover.server.resources.approvals import decided
from changeover.server.resources.bus import CallersBus
from changeover.server.resources.declarations import Drafts
from changeover.server.resources.schedules import CallersSchedules
from changeover.server.resources.tickets import cancelled
from changeover.server.resources.tools import ToolBench
from changeover.server.resources.workflows import Conducting
from changeover.stores.calls import KINDS, Listed, ListedPage, call_of
from changeover.stores.remote import MEDIA
from changeover.team import Team
from changeover.ticket import retry

resource = Resource("store")

CALLS: dict[str, Role] = {
    "lists.listed": Role.VIEWER,
    "lists.handoffs": Role.VIEWER,
    "lists.context_flow": Role.VIEWER,
    "measures.courses": Role.VIEWER,
    "measures.steps": Role.VIEWER,
    "measures.expenses": Role.VIEWER,
    "measures.refused": Role.VIEWER,
    "measures.opened": Role.VIEWER,
    "measures.limits": Role.VIEWER,
    "measures.depths": Role.VIEWER,
    "measures.occurrences": Role.VIEWER,
    "trials.measured": Role.VIEWER,
    "trials.variants": Role.VIEWER,
    "agents.all": Role.VIEWER,
    "agents.put": Role.ADMIN,
    "agents.switch": Role.ADMIN,
    "agents.remove": Role.ADMIN,
    "breakers.listed": Role.VIEWER,
    "breakers.force": Role.OPERATOR,
    "breakers.reset": Role.OPERATOR,
    "bus.publish": Role.OPERATOR,
    "bus.events": Role.VIEWER,
    "bus.event": Role.VIEWER,
    "bus.dead_letters": Role.VIEWER,
    "bus.subscribers": Role.VIEWER,
    "bus.resend": Role.OPERATOR,
    "declarations.listed": Role.VIEWER,
    "declarations.one": Role.VIEWER,
    "declarations.history": Role.VIEWER,
    "declarations.put": Role.ADMIN,
    "declarations.set_state": Role.ADMIN,
    "declarations.write": Role.ADMIN,
    "decisions.decide": Role.APPROVER,
    "decisions.cancel": Role.OPERATOR,
    "experience.outcomes": Role.VIEWER,
    "experience.capabilities": Role.VIEWER,
    "experience.unlearned": Role.VIEWER,
    "experience.reset": Role.ADMIN,
    "schedules.all": Role.VIEWER,
    "schedules.one": Role.VIEWER,
    "schedules.run": Role.OPERATOR,
    "schedules.pause": Role.OPERATOR,
    "schedules.resume": Role.OPERATOR,
    "tokens.all": Role.ADMIN,
    "tokens.issue": Role.ADMIN,
    "tokens.revoke": Role.ADMIN,
    "tools.test": Role.ADMIN,
    "work.unfinished": Role.VIEWER,
    "work.tickets": Role.VIEWER,
    "work.retry": Role.OPERATOR,
    "workflows.listed": Role.VIEWER,
    "workflows.start": Role.OPERATOR,
    "workflows.retry": Role.OPERATOR,
}
"""The role that each call needs; what is not here cannot be called."""
ALL_USERS = frozenset({"measures", "trials", "experience", "work"})
"""Ports about the conversations of all users; `lists` shows a caller its own, and the others are about the team."""
AUDITED = frozenset(
    {"agents.put", "agents.switch", "agents.remove", "breakers.force", "breakers.reset", "experience.reset"}
)
"""Calls that are audited here. Other ports note the changes of their callers themselves."""
MOST = 10_001
"""Records of one page at most."""

Name = Annotated[str, Path(pattern=r"^[a-z]+\.[a-z_]+$", max_length=50)]


@resource.route("POST /store/{call}", bytes, media=(MEDIA,), refusals={404: "There is no such call", 409: "Refused"})
async def call_store(call: Name, request: Request, team: Served, who: Who) -> Response:
    """Call a method of the store; its arguments and its answer are MessagePack. Made for `changeover … --server`."""
    if call not in CALLS:
        raise Problem(404, f"there is no call {call!r}; there are: {', '.join(CALLS)}", kind="call-not-found")
    who.needs(CALLS[call])
    port, method = call.split(".")
    if port in ALL_USERS and not who.sees_all:
        raise Problem(403, "this shows the work of all users, and the token is for one of them", kind="forbidden")
    made = call_of(port, method)
    given = made.read_arguments(await request.body())
    if port == "tokens" and "by" in given:
        given |= {"by": who.user or given["by"], "token": who.token}
    if call in AUDITED:
        await audited(team, who, call, _subject(given), msgspec.to_builtins(given))
    answer = await made.answer(getattr(_port(port, team, who), method), given)
    return Response(answer, media_type=MEDIA)


def _subject(given: dict[str, Any]) -> str:
    """The agent that a call is about; empty for all."""
    found = (given.get("id"), getattr(given.get("profile"), "id", ""), given.get("receiver"), given.get("agent"))
    return next(filter(None, found), "")


def _port(name: str, team: Team, who: Caller) -> Any:
    if name in OF_CALLER:
        return OF_CALLER[name](team, who)
    return getattr(team.log.lists if name in ("measures", "trials") else team.log, name)


class _Reading:
    """Lists, as far as a caller may see them."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._lists, self._who = team.log.lists, who

    async def listed(self, of: Listed) -> ListedPage:
        if of.kind not in KINDS or not 1 <= of.limit <= MOST:
            raise MisconfiguredError(f"a page has a kind ({', '.join(KINDS)}) and a limit of 1 to {MOST}")
        if of.kind == Audited.__name__:
            self._who.needs(Role.ADMIN)
        wanted = of.wanted if self._who.sees_all else {**of.wanted, "user": self._who.user}
        options = {"limit": of.limit, "sort": of.sort, "cursor": of.cursor}
        page: Any = await self._lists.listed(KINDS[of.kind], wanted, of.within, of.roots, **options)  # type: ignore[arg-type]
        return ListedPage([msgspec.Raw(msgspec.msgpack.encode(item)) for item in page], page.next)

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        await self._check(conversation)
        return await self._lists.handoffs(conversation)

    async def context_flow(self, conversation: str) -> list[ValueFlow]:
        await self._check(conversation)
        return await self._lists.context_flow(conversation)

    async def _check(self, conversation: str) -> None:
        """Raise ConversationNotFound if there is no such conversation that the caller may see."""
        row = await self._lists.one(ConversationRow, conversation)
        if row is None or not self._who.sees(row.user):
            raise ConversationNotFound(conversation)


class _Decisions:
    """Decisions of one caller."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who = team, who

    async def decide(self, approval: str, decision: Decision, by: str) -> None:
        await decided(self._team, self._who, approval, decision, by)

    async def cancel(self, handoff: str, by: str, reason: str) -> bool:
        return await cancelled(self._team, self._who, handoff, reason, by)


class _Work:
    """Work that waits in the store of a team."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team = team

    async def unfinished(self) -> list[str]:
        return await self._team.log.unfinished()

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        """The tickets, with the workers that hold them and without the tokens of their claims."""
        found = await self._team.log.queue.tickets(ticket)
        return [replace(each, owner=f"{worker_of(each.owner)}#") if each.owner else each for each in found]

    async def retry(self, ticket: str) -> bool:
        return await retry(self._team.log, ticket)


OF_CALLER: dict[str, Callable[[Team, Caller], Any]] = {
    "bus": CallersBus,
    "decisions": _Decisions,
    "declarations": Drafts,
    "lists": _Reading,
    "schedules": CallersSchedules,
    "tools": ToolBench,
    "work": _Work,
    "workflows": Conducting,
}
"""The ports that are made for each caller; others are those of the store."""
