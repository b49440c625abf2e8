"""Requests: what callers and clocks put into a conversation, as pure values that every engine records alike.

An engine asks a request for its `step` on the state at hand, appends what that says, and on a conflict asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.roster import Roster
from changeover.errors import Busy, ConversationNotFound, KeyConflict, MisconfiguredError, UnknownAgentError
from changeover.handoffs.package import HandoffPackage, fingerprint
from changeover.ids import input_cause, key_cause
from changeover.relay.decide.decision import first_agent
from changeover.relay.events import Entry, Event, RunResumed, Started, UserSpoke
from changeover.relay.ports.queue import Claim
from changeover.relay.ports.world import Override, World
from changeover.relay.state import State

T_co = TypeVar("T_co", covariant=True)


class Append(Struct, frozen=True, gc=False):
    """Append these events under this cause."""

    cause: str
    events: Sequence[Event]
    run: int = 0
    """The run that the request is about."""
    claim: Claim | None = None
    override: Override | None = None
    """Overrides of the team's declarations for that run."""


class Settled(Struct, Generic[T_co], frozen=True, gc=False):
    """There is nothing to append; this is the answer."""

    value: T_co


class Later(Struct, frozen=True, gc=False):
    """Something has to end first: ask again in a moment."""


class RunRef(NamedTuple):
    """Where a run is."""

    conversation: str
    run: int


class Input(Protocol[T_co]):
    """One input of a conversation, and how the state at hand answers it."""

    rereads: ClassVar[bool]
    """True if `repeated` compares with the entry that was recorded before."""

    @property
    def conversation(self) -> str: ...

    def key(self, state: State) -> str:
        """The cause under which an earlier call may have recorded this request; empty if none can have."""
        ...

    def step(self, state: State, world: World) -> Append | Settled[T_co] | Later:
        """What to append now. Raises a ChangeoverError if the request cannot be met."""
        ...

    def outcome(self, state: State, append: Append) -> T_co:
        """The answer for the caller, once the events are folded."""
        ...

    def repeated(self, state: State, position: int, entry: Entry | None) -> T_co:
        """The answer if the key was recorded before, at this position."""
        ...


class Once:
    """A request that is new each time it is made."""

    __slots__ = ()
    rereads: ClassVar[bool] = False

    def key(self, state: State) -> str:
        return ""

    def repeated(self, state: State, position: int, entry: Entry | None) -> NoReturn:
        raise AssertionError("a request without a key is never found")


def check_team(state: State, world: World) -> None:
    """Raise MisconfiguredError if the conversation belongs to another team."""
    if state.team and state.team != (mine := world.roster.team):
        raise MisconfiguredError(f"{state.id!r} belongs to the team {state.team!r}, and this team is {mine!r}")


ROOT = Started()


def signed_opening(opening: Started, world: World) -> Started:
    """The opening of a conversation, with the name of the team that works on it."""
    return opening if opening.team == world.roster.team else replace(opening, team=world.roster.team)


class Say(Struct, frozen=True, gc=False):
    """A user's message, or a package that a program offers; recorded once per key. The answer is its run."""

    rereads: ClassVar[bool] = False

    conversation: str
    """Empty for a new conversation, whose id the engine makes."""
    spoken: UserSpoke
    given_key: str = ""
    opening: Started = ROOT
    alone: bool = False
    """Raise Busy if anything else is under way in the conversation."""
    override: Override | None = None
    """Overrides of the team's declarations for its run, in the process that takes this input."""

    def key(self, state: State) -> str:
        # A conversation without entries has no keys. If that changes meanwhile, the append raises Conflict.
        return key_cause(self.given_key) if self.given_key and state.position else ""

    def fits(self, roster: Roster) -> bool:
        """True if the team has members, and among them the one that is to answer."""
        agent = self.spoken.agent
        if not roster.seats and agent not in roster.workflows:
            return False
        known = self.spoken.given is not None or agent in roster.seats or agent in roster.workflows
        return not agent or known

    def step(self, state: State, world: World) -> Append:
        if not self.fits(world.roster):
            raise self._misfit(world.roster)
        if self.alone and (state.run or state.inbox):
            raise Busy(state.id)
        if world.roster.absent and not (state.run or state.inbox):
            self._check_start(state, world.roster)
        spoken = self.spoken if world.trace is None else _traced(self.spoken, world.trace)
        events: list[Event] = [spoken] if state.position else [signed_opening(self.opening, world), spoken]
        run = state.position or 1  # position 0 of a log is its opening
        cause = key_cause(self.given_key) if self.given_key else input_cause("said", run)
        return Append(cause, events, run, override=self.override)

    def _misfit(self, roster: Roster) -> MisconfiguredError:
        if roster.seats:
            return UnknownAgentError(self.spoken.agent, list(roster.seats))
        return MisconfiguredError("the team has no agents: give it some, or declare them in its store")

    def _check_start(self, state: State, roster: Roster) -> None:
        """Raise MisconfiguredError if the run would begin with a start agent that is disabled."""
        if self.spoken.agent or self.spoken.package is not None:
            return
        if (agent := first_agent(state, self.spoken, roster)) in roster.absent:
            raise MisconfiguredError(f"the start agent {agent!r} is disabled or removed; enable it, or give agent=…")

    def outcome(self, state: State, append: Append) -> RunRef:
        return RunRef(state.id, append.run)

    def repeated(self, state: State, position: int, entry: Entry | None) -> RunRef:
        run = position or 1
        if (
            self.spoken.given is None
            and (said := _said(state, run)) is not None
            and _meant(said) != _meant(self.spoken)
        ):
            raise KeyConflict(self.given_key.removeprefix("offer:"), said.text)
        return RunRef(state.id, run)


def _traced(spoken: UserSpoke, trace: Callable[[], str]) -> UserSpoke:
    """The message with the caller's place in a trace; a delegate's has that of its handoff, if any."""
    return spoken if spoken.given is not None or spoken.trace else replace(spoken, trace=trace())


def _said(state: State, run: int) -> UserSpoke | None:
    """The message with which a run began, if the state still has it."""
    if (waiting := state.inbox.get(run)) is not None:
        return waiting
    if state.run is not None and state.run.id == run:
        return state.run.said
    outcome = state.outcomes.get(run)
    return outcome.run.said if outcome else None


def _meant(spoken: UserSpoke) -> tuple[object, ...]:
    """The fields in which two messages with the same key must agree."""
    package = fingerprint(HandoffPackage.from_dict(spoken.package)) if spoken.package else ""
    return spoken.text, spoken.agent, spoken.context, spoken.files, package, spoken.no_takers, spoken.inputs


class Resume(Once, Struct, frozen=True, gc=False):
    """Go on with a conversation: a run that failed tries its step again. The answer is the current or last run.

    With a `retried` step, a workflow that has ended carries out that step again, and all that follow it.
    """

    conversation: str
    retried: str = ""

    def step(self, state: State, world: World) -> Append | Settled[RunRef]:
        if self.retried:
            return self._retry(state)
        if state.run is not None:
            return Settled(RunRef(state.id, state.run.id))
        if state.inbox:
            return Settled(RunRef(state.id, next(iter(state.inbox))))
        if state.last is None:
            raise ConversationNotFound(state.id)
        run = state.last.run.id
        if state.last.resumable:
            return Append(input_cause("again", state.position), [RunResumed(run)], run)
        return Settled(RunRef(state.id, run))

    def outcome(self, state: State, append: Append) -> RunRef:
        return RunRef(state.id, append.run)

    def _retry(self, state: State) -> Append:
        """Carry out one step again; raises MisconfiguredError if the last run has no such step."""
        if state.run is not None or state.inbox:
            raise Busy(state.id)
        if state.last is None:
            raise ConversationNotFound(state.id)
        run = state.last.run
        if run.flow is None:
            raise MisconfiguredError(f"the last run of {state.id!r} is no workflow, so it has no step {self.retried!r}")
        if self.retried not in run.flow.steps:
            known = ", ".join(run.flow.steps)
            raise MisconfiguredError(f"the workflow {run.flow.plan.id!r} has no step {self.retried!r}; it has: {known}")
        return Append(input_cause("again", state.position), [RunResumed(run.id, self.retried)], run.id)
