"""Run: the state of one run, and its phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from changeover.facts import (
    ApprovalRequest,
    DelegateResult,
    Expected,
    Handed,
    HandoffRecord,
    Ledger,
    Share,
    Spent,
    Usage,
)
from changeover.faults import Fault, LimitFault
from changeover.guards.guard import Passed
from changeover.guards.limits import Limits
from changeover.ids import run_id
from changeover.relay.account import Account, Unreckoned, joined
from changeover.relay.events import ApprovalDecided, CallRefused, Checked, UserSpoke
from changeover.relay.turn import Answered, Offered, OpenCall, Refusal, Travelling, Turn
from changeover.relay.wait_time import WaitTime
from changeover.workflows.flow import Flow

NOTHING = Spent()
NO_RULES: frozenset[str] = frozenset()


def declared_by(expected: Expected, sender: str, tool: str) -> Expected:
    """The expectations with the sender and the tool that declare them, unless they name others."""
    return expected if expected.sender else replace(expected, sender=sender, tool=tool)


class Thinking(Struct, frozen=True, gc=False):
    """The active agent's reply is due; `due` is the id of the command that gets it."""

    due: str
    attempt: int = 1
    not_before: float = 0.0
    problem: str = ""
    """Why the last answer does not meet the expectations, if the agent has to answer again."""


class Awaiting(Struct, frozen=True, gc=False):
    """The active member is a person who has not answered yet."""

    due: str
    request: ApprovalRequest


class Acting(Struct, frozen=True, gc=False):
    """The calls of a reply are being answered."""

    turn: Turn


class Replied(Struct, frozen=True, gc=False):
    """The active agent has given its final answer."""

    text: str
    at: int = 0
    """Position of the answer in the log."""
    judged: bool = False
    problem: str = ""
    """Why it does not meet the expectations; empty if it does."""
    checked: Checked | None = None
    """The outcome of its checks, until that is recorded as an event of its own."""


class Broken(Struct, frozen=True, gc=False):
    """The run cannot go on."""

    fault: Fault


class Stopping(Struct, frozen=True, gc=False):
    """The run is over, and its delegates are being called back; without a fault it was cancelled."""

    fault: Fault | None
    turn: Turn | None


Phase = Thinking | Awaiting | Acting | Replied | Broken | Stopping
TURNING = (Acting, Stopping)
"""Phases that have a turn; a tuple, because a union would be built with every isinstance()."""


class Task(Struct, gc=False):
    """One agent's part of a run."""

    position: int = 0
    """Position of the event that began it; 0 before the first run."""
    run: str = ""
    agent: str = ""
    """The agent that got it; code, if code offers a package."""
    input: str = ""
    handoff: str | None = None
    """The handoff by which the agent got it."""
    status: Literal["pending", "running", "waiting", "completed", "failed", "cancelled"] = "running"
    max_iterations: int = 0
    """Number of replies that the run may take for it; 0 for no limit of its own."""

    def begin(self) -> None:
        """Mark a pending task as running: the agent has begun to work."""
        if self.status == "pending":
            self.status = "running"

    def go_on(self) -> None:
        """Mark a waiting task as running: a person has decided."""
        if self.status == "waiting":
            self.status = "running"


class Run(Account, kw_only=True, eq=False, gc=False):
    """The work from one user message to its answer."""

    id: int
    """Position of the message."""
    ref: str
    """The id of the run for callers."""
    at: float
    phase: Phase
    spoken: UserSpoke
    """The request as agents read it; a check may have replaced its text."""
    said: UserSpoke
    """The request as it was recorded."""
    first: int
    """Number of handoffs that the conversation had before this run."""
    limits: Limits | None = None
    """The caller's limits or those of the task's tier; None for the team's."""
    tier: str = ""
    """The tier of the task, if it was determined."""
    edition: int = 0
    """The edition of the store's declarations with which it began."""
    agents: set[str] = field(default_factory=set)
    """Agents that have worked for the run, or have accepted a task of it."""
    accounts: dict[str, Account] = field(default_factory=dict)
    """Accounts by agent, without delegates."""
    strikes: int = 0
    """Number of replies in a row with wrong calls."""
    tool_calls: int = 0
    repairs: int = 0
    """How often the agent was asked to answer again."""
    checked: int = 0
    """The task whose input was checked last, if it had to be."""
    below: Spent = NOTHING
    """The spending of delegates and of the conversations below them."""
    mistake: CallRefused | None = None
    """The last refused call."""
    fell_back: bool = False
    """True if the team fell back after a handoff that could not be made."""
    last_word: bool = False
    """True if an agent has replied after it was told that a budget is exhausted."""
    under_way: str = ""
    """The model call that was under way when the time ran out, and so was not told."""
    last_turn: str = ""
    """The turn after which the run is cancelled, if a caller wants that."""
    let_down: str = ""
    """Why a delegate of the active agent failed, or no receiver answered."""
    fired: frozenset[str] = NO_RULES
    """Rules that have handed the run over or answered."""
    misjudged: frozenset[str] = NO_RULES
    """Rules whose condition raised."""
    wishes: dict[str, Expected | None] = field(default_factory=dict)
    """The expectations of the answer, by transfer, from the first transfer of the run that has some; the last one
    counts."""
    told: bool = False
    """True if the agent was told that no handoff is left."""
    delegates: bool = False
    """True if the run has had a delegate."""
    struck: LimitFault | None = None
    """The limit of the whole run that a delegate exceeded."""
    trail: list[Passed] = field(default_factory=list)
    """The accepted transfers and the delegates that have returned, after the handoffs that led to this run."""
    progress: int = 0
    """Number of steps that achieved something."""
    news: int = 0
    """Number of steps after which something is new."""
    heard: dict[tuple[str, ...], None] = field(default_factory=dict)
    """Questions to read-only tools and delegates, each with its answer."""
    declined: dict[str, Refusal] = field(default_factory=dict)
    """The last declined handoff under each retry key, until one is accepted."""
    verdict: ApprovalDecided | None = None
    """The decision of the person who is the active member."""
    waiting: WaitTime = field(default_factory=WaitTime)
    ticket: str = ""
    """The ticket with which workers claim the active agent's work, if it is claimed."""
    by: str = ""
    """The worker or person that gave the answer or failed, or the caller that cancelled; empty if the agent did."""
    flow: Flow | None = None
    """The steps of the workflow that the run carries out, if it does."""
    worn_out: bool = False
    """True if workers claimed it too often without finishing it."""
    queued: bool = False
    """True if a handoff of the run was queued."""

    @property
    def undoes(self) -> bool:
        """True if a workflow undoes what was done; limits that were reached do not stop that."""
        return self.flow is not None and self.flow.fault is not None

    def find(self, call: str, phase: type | tuple[type, ...] = object) -> tuple[Turn, OpenCall] | None:
        """The open call of the current turn that an id belongs to, if it is in one of these phases."""
        now = self.phase
        if not isinstance(now, TURNING) or (turn := now.turn) is None or (found := turn.find(call)) is None:
            return None
        return (turn, found) if isinstance(found.phase, phase) and type(found.phase) is not Answered else None

    def offered(self, id: str) -> tuple[Turn, OpenCall, Offered] | None:
        """The offer with this id that has no answer yet, with its turn and its call."""
        now = self.phase
        if not isinstance(now, TURNING) or (turn := now.turn) is None or (call := turn.find(id)) is None:
            return None
        if isinstance(phase := call.phase, Offered) and phase.offer.call == id and phase.index < 0:
            return turn, call, phase
        return None

    def gain(self) -> None:
        """Count a step that achieved something new."""
        self.progress += 1
        self.news += 1

    def hears(self, *answer: str) -> bool:
        """Note a question with its answer; True if the answer is new."""
        known = len(self.heard)
        self.heard[answer] = None
        return len(self.heard) > known

    @property
    def wish(self) -> Expected | None:
        """The expectations of the answer: those of the delegating agent, else those of the transfers of this run."""
        given = self.spoken.given
        if given is not None and given.expected is not None:
            return declared_by(given.expected, given.sender, given.tool)
        return next(reversed(self.wishes.values()), None) if self.wishes else None

    def brokers(self, turn: Turn) -> bool:
        """True if this is the turn of a caller that has a broker find the receiver."""
        return turn.code and self.spoken.no_takers is not None

    def account(self, agent: str) -> Account:
        """The account of an agent, opened with its first use."""
        if (found := self.accounts.get(agent)) is None:
            found = self.accounts[agent] = Account()
        return found

    def spend(self, agent: str, usage: Usage) -> None:
        """Count one reply."""
        account = self.account(agent)
        self.turns += 1
        account.turns += 1
        self.pay(usage)
        account.pay(usage)

    def charge(self, agent: str, usage: Usage) -> None:
        """Add the usage of a model call to an agent."""
        self.pay(usage)
        self.account(agent).pay(usage)

    def count_retry(self, agent: str) -> None:
        """Count the retry of a model call."""
        self.retries += 1
        self.account(agent).retries += 1

    def count_handoff(self, agent: str, more: int = 1) -> None:
        """Count a handoff that this agent offers, or uncount one that was declined. The steps of a workflow count as
        none: their number is known beforehand."""
        if self.flow is not None:
            return
        self.handoffs += more
        self.account(agent).handoffs += more

    def take_back(self, spent: Spent, call: str) -> None:
        """Count what the delegate of a call spent."""
        if self.flow is not None:
            self.flow.charge(call, spent.usage)
        self.waiting.take_back(spent)
        before = self.below
        self.below = Spent(
            before.turns + spent.turns,
            before.handoffs + spent.handoffs,
            before.retries + spent.retries,
            before.usage + spent.usage,
            shares=joined(before.shares, spent.shares),
        )
        self.agents.update(spent.agents)

    @property
    def usage(self) -> Usage:
        return self.own_usage if self.below is NOTHING else self.own_usage + self.below.usage

    @property
    def tokens(self) -> int:
        own = self.input_tokens + self.output_tokens
        return own if self.below is NOTHING else own + self.below.usage.total_tokens

    @property
    def whole_cost(self) -> float | None:
        """Cost of all calls with those of delegates: 0 without calls, None if one price is unknown."""
        if self.below is NOTHING:
            return self.cost if self.requests else 0.0
        usage = self.usage
        return usage.cost if usage.requests else 0.0

    def spent(self) -> Spent:
        """The spending of the run and of the conversations below it."""
        below = self.below
        return Spent(
            self.turns + below.turns,
            self.handoffs + below.handoffs,
            self.retries + below.retries,
            self.usage,
            tuple(sorted(self.agents)),
            self.waiting.seconds,
            self.shares(),
            self.waiting.spans,
        )

    def own_shares(self) -> dict[str, Share]:
        """Shares by agent, without delegates."""
        return {agent: account.share() for agent, account in self.accounts.items()}

    def shares(self) -> dict[str, Share]:
        """Shares by agent, delegates included."""
        return joined(self.below.shares, self.own_shares()) if self.below.shares else self.own_shares()

    def ledger(self, now: float) -> Ledger:
        """The spending of the run by `now`, its delegates included."""
        return self._ledger(now, self.shares())

    def last_ledger(self, outcome: Outcome) -> Ledger:
        """The same when the run has ended."""
        return self._ledger(outcome.at, joined(self.below.shares, outcome.shares))

    def passing_ledger(self, now: float) -> Ledger:
        """The same without copies, for a reader that does not keep it."""
        return self._ledger(now, Unreckoned(self.shares))

    def _ledger(self, now: float, shares: Mapping[str, Share]) -> Ledger:
        below = self.below
        handoffs, turns = self.handoffs + below.handoffs, self.turns + below.turns
        retries, agents = self.retries + below.retries, len(self.agents)
        return Ledger(handoffs, turns, self.tokens, self.whole_cost, agents, retries, now - self.at, shares)


def new_run(conversation: str, id: int, spoken: UserSpoke, at: float, first: int, phase: Phase) -> Run:
    """The run of the message at position `id`, after the `first` handoffs of its conversation."""
    ref = run_id(conversation, id)
    return Run(id=id, ref=ref, at=at, phase=phase, spoken=spoken, said=spoken, first=first, limits=spoken.limits)


class Outcome(Struct, frozen=True, gc=False):
    """The end of a run, with everything that its result holds."""

    run: Run
    agent: str
    output: str
    handoffs: list[HandoffRecord]
    fault: Fault | None
    at: float
    travelling: Travelling
    handed: Handed | None
    cancelled: bool = False
    returned: tuple[DelegateResult, ...] = ()
    """Results that were returned to code that offered a package."""
    undone: bool = False
    """True if a rollback gave the task back, so that there is no step to retry."""
    name: str = ""
    """Display name of the agent, or its id."""
    shares: dict[str, Share] = {}
    """The spending of each agent, without delegates."""

    @property
    def resumable(self) -> bool:
        """True if the failed step can be retried, or a cancelled workflow can go on."""
        stopped = self.fault is not None or (self.cancelled and self.run.flow is not None)
        return stopped and not self.undone
