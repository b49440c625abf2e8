"""The pipeline that makes offers: each way to hand off goes through it, and differs only by its proposal."""

import re
from pathlib import Path
from typing import Any

import pytest

import changeover.relay.decide.offer as pipeline
from changeover.agent.agent import Agent
from changeover.agent.handoff import delegate, handoff
from changeover.agent.moves import Intent
from changeover.agent.roster import Roster, seat
from changeover.facts import Mode
from changeover.guards.guard import Deny
from changeover.guards.limits import Limits
from changeover.messages import Call
from changeover.relay.commands import CallModel, Record, SeekApproval
from changeover.relay.decide.decision import settle
from changeover.relay.decide.offer import Proposal, propose
from changeover.relay.events import CallRefused, Event, HandoffOffered, ModelReplied, RunFailed, Started, UserSpoke
from changeover.relay.run import Acting
from changeover.relay.state import State
from changeover.relay.turn import Turn

MEMBERS = {
    "triage": Agent("triage", handoffs=[handoff("billing"), delegate("expert", approval=True)]),
    "billing": Agent("billing"),
    "expert": Agent("expert"),
}


def roster(**options: Any) -> Roster:
    return Roster({id: seat(agent, MEMBERS, (), True) for id, agent in MEMBERS.items()}, start="triage", **options)


def acting(team: Roster) -> tuple[State, Turn]:
    """Triage's turn with one call that waits for a decision."""
    state = State("ada")
    settle(state, team, 0.0, [Started(), UserSpoke("I was charged twice!")])
    state.apply(ModelReplied("triage", task=2, calls=(Call("c1", "handoff_to_billing", {}),)))
    assert state.run is not None
    assert isinstance(state.run.phase, Acting)
    return state, state.run.phase.turn


def outcome(team: Roster, origin: Any, receiver: str = "billing", mode: Mode = Mode.TRANSFER) -> Any:
    state, turn = acting(team)
    assert state.run is not None
    [call] = turn.asked
    id = f"{call.id}.0" if origin == "branch" else call.id
    due = propose(
        state, state.run, Proposal(turn, call, None, Intent(receiver, "Please.", mode=mode), origin, id), team
    )
    return due.event if isinstance(due, Record) else due


def test_only_the_pipeline_makes_offers():
    room = Path(pipeline.__file__).parent
    makers = {file.name for file in room.glob("*.py") if re.search(r"\bHandoffOffered\(\s*$", file.read_text(), re.M)}
    assert makers == {"offer.py"}


@pytest.mark.parametrize("origin", ["call", "command", "branch"])
def test_every_way_makes_the_same_offer(origin: str):
    mode = Mode.DELEGATE if origin == "branch" else Mode.TRANSFER
    offer = outcome(roster(), origin, mode=mode)
    assert isinstance(offer, HandoffOffered)
    assert (offer.sender, offer.receiver, offer.message, offer.mode) == ("triage", "billing", "Please.", mode)


@pytest.mark.parametrize(
    ("origin", "why", "words"),
    [
        ("call", "receiver", "you can hand off to: billing"),
        ("command", "command", "this team has: triage, expert"),
        ("branch", "ignored", "this team has: triage, expert"),
    ],
)
def test_an_absent_receiver_is_refused_in_the_words_of_each_way(origin: str, why: str, words: str):
    mode = Mode.DELEGATE if origin == "branch" else Mode.TRANSFER
    refused = outcome(roster(absent=frozenset({"billing"})), origin, mode=mode)
    assert isinstance(refused, CallRefused)
    assert refused.why == why
    assert words in refused.reason


@pytest.mark.parametrize("origin", ["call", "command", "branch"])
def test_every_way_keeps_to_the_limits_of_the_run(origin: str):
    fault = outcome(roster(limits=Limits(max_handoffs=0)), origin)
    assert isinstance(fault, RunFailed)


@pytest.mark.parametrize(("origin", "why"), [("call", "guard"), ("command", "guard"), ("branch", "ignored")])
def test_every_way_is_guarded(origin: str, why: str):
    class Closed:
        def check(self, *_: Any) -> Deny:
            return Deny("closed")

    refused = outcome(roster(guards=(Closed(),)), origin)
    assert isinstance(refused, CallRefused)
    assert (refused.why, refused.reason) == (why, "refused: closed")


def test_a_person_is_asked_before_limits_and_guards():
    team = roster(limits=Limits(max_handoffs=0))
    state, turn = acting(team)
    assert state.run is not None
    [call] = turn.asked
    move = team.move_of("triage", "delegate_to_expert")
    assert move is not None
    proposal = Proposal(turn, call, move, Intent("expert", "Look."), "call", call.id, approval=move.approval)
    due = propose(state, state.run, proposal, team)
    assert isinstance(due, SeekApproval)
    assert (due.receiver, due.message) == ("expert", "Look.")


def test_settling_needs_no_engine_and_leaves_only_effects():
    state, team = State("ada"), roster()
    happened = []
    reply = ModelReplied("triage", task=2, calls=(Call("c1", "handoff_to_billing", {}),))
    begun: list[Event] = [Started(), UserSpoke("I was charged twice!")]
    for events in (begun, [reply]):
        recorded, outstanding = settle(state, team, 0.0, events)
        happened.append(([type(each).__name__ for each in recorded], [(type(each), each.id) for each in outstanding]))
    assert happened == [
        (["Started", "UserSpoke", "RunStarted"], [(CallModel, "2")]),
        (["ModelReplied", "HandoffOffered", "HandoffAccepted"], [(CallModel, "5")]),
    ]
