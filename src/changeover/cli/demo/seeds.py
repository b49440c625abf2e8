"""Seeds: the conversations with which the demo server begins, and the model that tells them the same way each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from changeover.cli.demo.desk import CUSTOMER, MESSAGES, desk, judge, line
from changeover.errors import ModelError
from changeover.ids import root_of
from changeover.messages import Reply
from changeover.models.offline import OfflineModel
from changeover.relay.lists import ConversationRow
from changeover.relay.ports import Log, Request
from changeover.stores.store import Store
from changeover.team import Team
from changeover.testing import ScriptedModel, fails, hands_off

APPROVER = "approver on duty"
OUTAGE: Mapping[str, Reply] = {
    "triage": hands_off("technical", "Error E42, since this morning."),
    "technical": fails("the provider of the model cannot be reached", retryable=False),
}


class Seed(Struct, frozen=True):
    """A conversation of the demo server."""

    id: str
    messages: Sequence[str]
    approved: bool = False
    """Whether a person approves what it asks for; else it waits."""
    cancelled: bool = False


SEEDS = (
    Seed("order-1042", MESSAGES, approved=True),
    Seed("plans", ("Compare the Basic plan with the Team plan",)),
    Seed("outage", ("The app shows error E42",)),
    Seed("second-thoughts", MESSAGES[:1], cancelled=True),
    Seed("refund-waits", MESSAGES[:1]),
)
"""The newest last: it is the first in every list, and waits for a person."""
SCRIPTED = frozenset({"order-1042", "second-thoughts", "refund-waits"})
OFFLINE = OfflineModel(notice=False)


async def reply(request: Request) -> Reply:
    """The next line of a seed; in all other conversations, and after the last line, the offline model replies."""
    seed = root_of(request.conversation)
    if seed == "outage" and request.turn == 0:
        return OUTAGE[request.agent]
    if seed in SCRIPTED:
        try:
            return line(request.agent, request.messages, request.tools)
        except LookupError:
            pass  # somebody went on with it
    return await OFFLINE.reply(request)


def demo_team(store: str | Store | Log | None) -> Team:
    """The support desk of the demo, for a server."""
    return desk(ScriptedModel(reply)).on(store)


async def sow(team: Team) -> None:
    """Tell all seeds that the store does not have yet."""
    for seed in SEEDS:
        if await team.log.lists.one(ConversationRow, seed.id) is None:
            await _tell(team, seed)


async def _tell(team: Team, seed: Seed) -> None:
    for text in seed.messages:
        try:
            result = await team.run(text, conversation=seed.id, user=CUSTOMER)
        except ModelError:
            return  # the outage
        while seed.approved and result.requests:
            for request in result.requests:
                await team.decide(request, judge(request), by=APPROVER)
            result = await team.resume(seed.id)
    if seed.cancelled:
        await team.cancel(seed.id, by=CUSTOMER, reason="The customer found the payment.")
