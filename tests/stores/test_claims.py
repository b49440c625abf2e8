"""What is written by a claim, and what entries do to tickets: together in one transaction, or not at all."""

import asyncio
from typing import Any

import pytest

from changeover.errors import ClaimLost, Conflict, Exhausted
from changeover.relay.ports.log import Head, Log, Reserve
from changeover.relay.ports.queue import Claim, Queued
from tests.stores.conftest import Opened
from tests.stores.connection_loss import losing_once
from tests.stores.entries import LEFT, WORKING, more, opening, stored
from tests.stores.tickets import LONG, OVER, Scribe, standing, take, taken, ticket

MINE = Claim("t", "mine")


async def held(log: Log, **how: Any) -> Scribe:
    """A conversation with one ticket, which is ours."""
    scribe = Scribe(log)
    await scribe.write(ticket("t"))
    assert await taken(log, token="mine", **how) == ["t"]
    return scribe


async def refused(scribe: Scribe, log: Log, claim: Claim = MINE) -> str:
    """Why nothing can be written by a claim; and that nothing was."""
    before = await stored(log), await log.queue.tickets()
    with pytest.raises(ClaimLost, match=f"the claim on '{claim.ticket}' is no longer valid: ") as caught:
        await scribe.write(ticket("new"), claim=claim, gone=["t"])
    assert caught.value.ticket == claim.ticket
    assert (await stored(log), await log.queue.tickets()) == before
    return str(caught.value).rpartition(": ")[2]


async def test_what_is_written_by_a_claim_that_holds_is_recorded_and_the_claim_goes_on(log: Log):
    scribe = await held(log)
    await scribe.write(claim=MINE)
    await scribe.write(claim=MINE)
    assert len(await stored(log)) == 3
    found = await standing(log, "t")
    assert (found.owner, found.attempts) == ("mine", 1)


async def test_nothing_is_written_by_a_claim_that_somebody_else_has_now(log: Log):
    scribe = await held(log, lease=OVER)
    assert await taken(log, token="theirs") == ["t"]
    assert await refused(scribe, log) == "another worker holds it"
    await scribe.write(claim=Claim("t", "theirs"))


async def test_nothing_is_written_by_a_claim_that_was_given_back(log: Log):
    scribe = await held(log)
    await log.queue.give_back(MINE, counted=False)
    assert await refused(scribe, log) == "it was released and waits to be claimed again"


async def test_nothing_is_written_by_a_claim_on_what_is_over(log: Log):
    scribe = await held(log)
    await scribe.write(gone=["t"])
    assert await refused(scribe, log) == "there is nothing left to do"


async def test_a_lease_that_ran_out_does_no_harm_until_somebody_looks_for_work(log: Log):
    scribe = await held(log, lease=OVER)
    await scribe.write(claim=MINE)
    assert await taken(log, "b") == []
    assert await refused(scribe, log) == "it was released and waits to be claimed again"


async def test_a_claim_that_was_lost_is_told_before_anything_else(log: Log):
    await held(log)
    stale = Scribe(log)
    with pytest.raises(Conflict):
        await stale.write(claim=MINE)
    with pytest.raises(ClaimLost):
        await stale.write(claim=Claim("t", "theirs"))


async def test_a_claim_that_ends_leaves_the_ticket_to_anybody_as_if_nobody_had_taken_it(log: Log):
    scribe = await held(log)
    await scribe.write(claim=Claim("t", "mine", ends=True))
    assert await standing(log, "t") == Queued(ticket("t"))
    assert await refused(scribe, log) == "it was released and waits to be claimed again"
    assert [each.attempt for each in await take(log)] == [1]


async def test_a_claim_may_end_with_its_ticket(log: Log):
    scribe = await held(log)
    await scribe.write(ticket("next"), claim=Claim("t", "mine", ends=True), gone=["t"])
    assert [each.ticket.id for each in await log.queue.tickets()] == ["next"]


async def test_a_claim_may_end_with_an_input(log: Log):
    scribe = await held(log)
    await log.append(more(scribe.end), None, None, Claim("t", "mine", ends=True))
    assert await standing(log, "t") == Queued(ticket("t"))


async def test_what_is_put_again_stays_as_it_is(log: Log):
    scribe = await held(log)
    await scribe.write(ticket("t", "b", at=9.0, priority=5, deadline=3.0), ticket("t", "c"))
    found = await standing(log, "t")
    assert (found.ticket, found.owner, found.attempts) == (ticket("t"), "mine", 1)
    assert await taken(log, "abc") == []


async def test_what_rests_is_nobodys_and_not_taken_until_it_is_put_again(log: Log):
    scribe = await held(log)
    await scribe.write(claim=MINE, rests=["t", "no such ticket"])
    assert await standing(log, "t") == Queued(ticket("t"), rests=True)
    assert await taken(log) == []
    assert await log.queue.lapsed(1) == []
    assert await refused(scribe, log) == "it was released and waits to be claimed again"
    await scribe.write(ticket("t"))
    assert await standing(log, "t") == Queued(ticket("t"))
    assert [each.attempt for each in await take(log)] == [1]


async def test_a_claim_that_ends_with_what_rests_does_not_wake_it(log: Log):
    scribe = await held(log)
    await scribe.write(claim=Claim("t", "mine", ends=True), rests=["t"])
    assert await standing(log, "t") == Queued(ticket("t"), rests=True)


async def test_what_waits_can_rest_before_anybody_took_it(log: Log):
    scribe = Scribe(log)
    await scribe.write(ticket("t"), ticket("u"))
    await scribe.write(rests=["t"])
    assert await taken(log) == ["u"]
    await scribe.write(ticket("t"))
    assert await taken(log) == ["t"]


async def test_a_ticket_that_was_over_can_be_put_anew(log: Log):
    scribe = await held(log)
    await scribe.write(ticket("t", "b", at=7.0), gone=["t"])
    assert await standing(log, "t") == Queued(ticket("t", "b", at=7.0))
    assert (await taken(log), await taken(log, "b")) == ([], ["t"])


async def test_who_lets_go_of_a_conversation_can_let_its_ticket_rest(log: Log):
    scribe = Scribe(log, working=True)
    await scribe.write(ticket("t"))
    await take(log, token="mine")
    await log.release("c", scribe.end, "t")
    assert await standing(log, "t") == Queued(ticket("t"), rests=True)
    await log.release("c", scribe.end, "no such ticket")


async def test_who_does_not_let_go_of_a_conversation_lets_no_ticket_rest(log: Log):
    scribe = Scribe(log, working=True)
    await scribe.write(ticket("t"))
    await take(log, token="mine")
    await log.release("c", scribe.end - 1, "t")
    await log.release("no such conversation", 0, "t")
    await log.release("c", scribe.end)
    found = await standing(log, "t")
    assert (found.owner, found.rests) == ("mine", False)


async def test_an_entry_that_is_refused_does_nothing_to_tickets(log: Log):
    scribe = await held(log)
    await log.append(opening("other"), LEFT)
    before = await log.queue.tickets()
    head = Head("running", "front", False, None, (ticket("new"),), (), ("t",))
    with pytest.raises(Conflict):
        await log.append(more(scribe.end + 1), head, None, Claim("t", "mine", ends=True))
    with pytest.raises(Exhausted):
        await log.append(more(scribe.end), head, Reserve(9, 0, 3, 3), Claim("t", "mine", ends=True))
    assert await log.queue.tickets() == before


async def test_of_entries_by_one_claim_none_is_written_after_the_one_with_which_it_ends(log: Log):
    await held(log)
    scribes = [Scribe(log, f"c{number}") for number in range(4)]
    claim = Claim("t", "mine", ends=True)
    first, *others = await asyncio.gather(*(each.write(claim=claim) for each in scribes), return_exceptions=True)
    assert first is None
    assert [type(each) for each in others] == [ClaimLost] * 3
    assert await stored(log, "c1") == []


async def test_what_many_entries_do_to_one_ticket_at_once_is_done_in_their_order(log: Log):
    scribes = [Scribe(log, f"c{number}", working=True) for number in range(6)]
    for each in scribes:
        await each.write()
    await scribes[0].write(ticket("t"), ticket("u"), ticket("v"))
    await take(log, token="mine")
    await asyncio.gather(
        scribes[0].write(gone=["t"]),
        scribes[1].write(ticket("t", "b"), rests=["u"]),
        scribes[2].write(ticket("u"), ticket("w")),
        scribes[3].write(rests=["v"], gone=["w"]),
        scribes[4].write(ticket("v"), rests=["v"]),
    )
    assert await log.queue.tickets() == [
        Queued(ticket("t", "b")),
        Queued(ticket("u")),
        Queued(ticket("v"), rests=True),
    ]
    with pytest.raises(ClaimLost):
        await scribes[5].write(claim=Claim("u", "mine"))


async def test_an_entry_that_ended_its_own_claim_by_a_commit_of_which_nobody_heard_is_recorded(
    postgres: str, opened: Opened
):
    log = opened(postgres)
    scribe = await held(log)
    lost = losing_once(log)
    await scribe.write(ticket("next"), claim=Claim("t", "mine", ends=True), gone=["t"])
    assert lost, "nothing was lost, so nothing is shown"
    assert len(await stored(log)) == 2
    assert await log.queue.tickets() == [Queued(ticket("next"))]


async def test_what_was_taken_by_a_commit_of_which_nobody_heard_is_not_lost(postgres: str, opened: Opened):
    log = opened(postgres)
    await Scribe(log).write(ticket("t"), ticket("u"), ticket("v"))
    lost = losing_once(log)
    assert await taken(log, limit=2) == ["t", "u"]
    assert lost, "nothing was lost, so nothing is shown"
    assert [(each.owner, each.attempts) for each in await log.queue.tickets()] == [("me", 1), ("me", 1), ("", 0)]


async def test_what_was_given_back_by_a_commit_of_which_nobody_heard_was_given_back(postgres: str, opened: Opened):
    log = opened(postgres)
    await held(log)
    lost = losing_once(log)
    assert await log.queue.give_back(MINE, counted=True)
    assert lost, "nothing was lost, so nothing is shown"
    assert not await log.queue.give_back(MINE, counted=True)


async def test_a_claim_holds_whichever_process_shows_it(shared_store: str, opened: Opened):
    mine, theirs = opened(shared_store), opened(shared_store)
    scribe = await held(mine)
    other = Scribe(theirs)
    other.end = scribe.end
    await other.write(claim=MINE)
    assert await theirs.queue.renew([MINE], LONG) == ["t"]
    await theirs.append(more(other.end), WORKING, None, MINE)
    assert len(await stored(mine)) == 3
