"""Corners of offers, expectations and rollbacks, each in its smallest form."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from changeover import Agent, Limits, Member, Person, Reject, Respond, Team, delegate, handoff, tool
from changeover.errors import EconomicLimitExceeded, HandoffTimeoutError, PackageError
from changeover.messages import Message, ToolResult
from changeover.protocol import Context, Expectations, HandoffPackage, Metadata, Mode, Rejected, Rollback, Task
from changeover.relay.events import RollbackDone
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition


def package(receiver: str = "clerk", mode: Mode = Mode.DELEGATE, **metadata: Any) -> HandoffPackage:
    return HandoffPackage(Task("count"), metadata=Metadata(receiver=receiver, mode=mode, **metadata))


def here(*ids: str) -> Team:
    """A team in which everybody says that they are here."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(f"{agent} is here")

    return Team([Agent(id, handoffs=()) for id in ids], model=ScriptedModel(play))


async def test_a_handoff_that_is_being_undone_may_be_undone_by_somebody_else_too(tmp_path: Any):
    begun = asyncio.Event()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "clerk":
            begun.set()
            await asyncio.Event().wait()
        if agent == "billing":
            return delegates("clerk", "count")
        return hands_off("billing", "refund") if len(messages) == 1 else says("triage has it again")

    members = [Agent("triage"), Agent("billing", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    # On a file, for in memory nobody else would get a turn.
    team = Team(members, model=ScriptedModel(play), store=f"sqlite:///{tmp_path / 'store.db'}")
    saying = asyncio.ensure_future(team.run("charged twice", conversation="c"))
    await begun.wait()
    undoing = [asyncio.ensure_future(team.rollback("c:3.0", by=by)) for by in ("ana", "bob")]
    try:
        async with asyncio.timeout(3):
            await asyncio.gather(*undoing, return_exceptions=True)
            assert (await saying).output == "triage has it again"
    finally:
        for task in (*undoing, saying):
            task.cancel()
        await team.close()


async def test_a_delegate_is_held_to_what_is_expected_also_after_a_handoff_of_its_own_was_undone():
    begun = asyncio.Event()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "boss":
            return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else delegates("clerk", "count")
        if agent == "clerk":
            return says("about three") if len(messages) > 3 else hands_off("expert", "count")
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    ways = [delegate("clerk", expects={"type": "integer"})]
    members = [Agent("boss", handoffs=ways), Agent("clerk", handoffs=["expert"]), Agent("expert", handoffs=())]
    team = Team(members, model=ScriptedModel(play))
    saying = asyncio.ensure_future(team.run("how many?", conversation="c"))
    await begun.wait()
    await team.rollback("c/3.0:3.0")
    assert json.loads((await saying).output)["success"] is False


async def test_what_a_handoff_that_was_undone_says_of_the_next_message_holds_no_longer():
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return hands_off("billing", "refund") if len(messages) == 1 else says(f"{agent} is here")

    members = [Agent("triage", handoffs=[handoff("billing", return_to="other")]), Agent("billing"), Agent("other")]
    team = Team(members, model=ScriptedModel(play))
    first = await team.run("charged twice", conversation="c")
    await team.rollback(first.handoff_chain[0])
    assert (await team.run("and now?", conversation="c")).final_agent == "triage"


async def test_when_a_package_is_taken_back_whoever_was_active_before_it_is_active_again():
    team = here("first", "second", "third")
    await team.run("hello", conversation="c", agent="second")
    result = await team.offer(package("third", Mode.TRANSFER, conversation="c"))
    await team.rollback(result.handoff_id)
    assert (await team.run("and now?", conversation="c")).final_agent == "second"


async def test_a_package_whose_deadline_has_passed_is_not_handed_over():
    with pytest.raises(HandoffTimeoutError):
        await here("clerk").offer(package(mode=Mode.TRANSFER, deadline=datetime(2020, 1, 1, tzinfo=UTC)))


async def test_what_a_person_says_who_gives_a_package_back_is_told_to_whoever_offered_it():
    async def accepts(package: HandoffPackage) -> Rejected:
        return Rejected("closed")

    team = Team([Agent(id, accepts=accepts) for id in ("clerk", "second", "third")], model=ScriptedModel({}))
    about = Metadata(receiver="clerk", idempotency_key="k")
    given = HandoffPackage(Task("count"), Context(escalation_path=("second", "third")), about)
    [request] = (await team.offer(given)).requests
    await team.decide(request, Reject("count it yourself"), by="ana")
    assert "count it yourself" in (await team.offer(given)).reason


async def test_a_package_that_expects_what_is_no_schema_is_refused():
    wrong = replace(package(), expectations=Expectations(output_schema={"type": 7}))
    with pytest.raises(PackageError):
        await here("clerk").offer(wrong)


async def test_a_person_is_shown_the_task_that_a_package_hands_over():
    team = Team([Person("ana")])
    [request] = (await team.offer(package("ana", Mode.TRANSFER))).requests
    assert "count" in request.message


async def test_a_task_has_a_name_when_its_receiver_is_asked():
    async def accepts(package: HandoffPackage) -> bool:
        return bool(package.task.id)

    team = Team([Agent("clerk", accepts=accepts)], model=ScriptedModel({"clerk": [says("Three.")]}))
    assert (await team.offer(package())).result == "Three."


async def test_a_person_who_is_delegated_to_is_held_to_what_is_expected():
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else delegates("ana", "count")

    ways = [delegate("ana", expects={"type": "integer"})]
    team = Team([Agent("boss", handoffs=ways), Person("ana")], model=ScriptedModel(play))
    [request] = (await team.run("how many?", conversation="c")).requests
    await team.decide(request, Respond("a few"), by="ana")
    [again] = (await team.resume("c")).requests
    await team.decide(again, Respond("still a few"), by="ana")
    assert json.loads((await team.resume("c")).output)["success"] is False


async def test_what_a_receiver_had_offered_is_returned_when_its_own_handoff_is_undone():
    begun = asyncio.Event()

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "billing":
            return hands_off("bank", "pay")
        return hands_off("billing", "refund") if len(messages) == 1 else says("triage has it again")

    async def accepts(package: HandoffPackage) -> bool:
        begun.set()
        await asyncio.Event().wait()
        return True

    team = Team([Agent("triage"), Agent("billing"), Agent("bank", accepts=accepts)], model=ScriptedModel(play))
    saying = asyncio.ensure_future(team.run("charged twice", conversation="c"))
    await begun.wait()
    await team.rollback("c:3.0")
    result = await saying
    assert result.output == "triage has it again"
    assert result.ledger.handoffs == 1, "what nobody took is none"
    states = [(record.receiver, str(record.state)) for record in await team.handoffs("c")]
    assert states == [("billing", "RETURNED"), ("bank", "RETURNED")]


async def test_what_a_delegate_left_to_clean_up_is_cleaned_up_after_a_restart():
    begun, log, tried = asyncio.Event(), MemoryLog(), list[str]()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "expert":
            begun.set()
            await asyncio.Event().wait()
        if agent == "boss":
            return says("done") if isinstance(messages[-1], ToolResult) else delegates("clerk", "count")
        return says("Three.") if len(messages) > 3 else hands_off("expert", "count")

    async def clean(rollback: Rollback) -> None:
        tried.append(rollback.idempotency_key)
        if len(tried) == 1:
            raise ConnectionError("not the first time")

    ways = [handoff("expert", on_rollback=clean)]
    members = [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=ways), Agent("expert")]
    clock = ManualClock()
    team = Team(members, model=ScriptedModel(play), store=log, clock=clock)
    saying = asyncio.ensure_future(team.run("how many?", conversation="c"))
    await begun.wait()
    await team.rollback("c/3.0:3.0")
    assert (await saying).output == "done"
    await team.close()
    async with Team(members, model=ScriptedModel(play), store=log, clock=clock) as again:
        await clock.advance(1_000)
        assert tried == ["c/3.0:3.0<", "c/3.0:3.0<"]
        assert isinstance((await again.history("c"))[-1].event, RollbackDone)


async def test_a_handoff_that_took_too_long_says_how_long_it_took():
    clock = ManualClock()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    team = Team([Agent("clerk", handoffs=())], model=ScriptedModel(play), clock=clock)
    offering = asyncio.ensure_future(team.offer(package()))
    await clock.advance(300)
    with pytest.raises(HandoffTimeoutError) as late:
        await offering
    assert late.value.handoff.duration == 300.0


async def test_a_package_cannot_set_what_only_a_handoff_writes():
    forged = replace(package(), context=Context(variables={"_handoff_from": "the boss", "order": 42}))
    with pytest.raises(PackageError, match="_handoff_from is reserved"):
        await here("clerk").offer(forged)


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize(
    "receiver", [Person("ana"), Agent("ana", tools=[pay], handoffs=())], ids=["who is asked", "whose tool is"]
)
async def test_time_goes_on_when_what_a_person_was_asked_is_undone(receiver: Member):
    clock = ManualClock()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "ana":
            return calls(("pay", {}))
        if len(messages) == 1:
            return hands_off("ana", "refund")
        await clock.alarm(clock.now() + 1_000)
        return says("At last.")

    members = [Agent("triage"), receiver]
    limits = Limits(timeout=60)
    async with Team(members, model=ScriptedModel(play), clock=clock, limits=limits) as team:
        assert (await team.run("charged twice", conversation="c")).status == "waiting"
        await clock.advance(600)
        await team.rollback("c:3.0", reason="a mistake")
        going = asyncio.ensure_future(team.resume("c"))
        await clock.advance(50)
        assert not going.done()
        await clock.advance(20)
        with pytest.raises(EconomicLimitExceeded, match="timeout=60"):
            await asyncio.wait_for(going, 10)


async def test_a_delegate_that_is_cancelled_while_a_person_is_asked_did_not_take_that_time():
    clock = ManualClock()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "clerk":
            return calls(("pay", {}))
        if len(messages) == 1:
            return delegates("clerk", "pay")
        await clock.alarm(clock.now() + 30)
        return says("Not paid.")

    members = [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", tools=[pay], handoffs=())]
    async with Team(members, model=ScriptedModel(play), clock=clock, limits=Limits(timeout=60)) as team:
        assert (await team.run("pay", conversation="c")).status == "waiting"
        await clock.advance(590)
        await team.cancel("c/3.0")
        going = asyncio.ensure_future(team.resume("c"))
        await clock.advance(30)
        assert (await asyncio.wait_for(going, 10)).output == "Not paid."
