"""Run: one run under way, with its phase, and an account of what each agent has spent in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from changeover.facts import ApprovalRequest, DelegateResult, Handed, HandoffRecord, Ledger, Share, Spent, Usage
from changeover.faults import Fault, LimitFault
from changeover.guards.guard import Passed
from changeover.guards.limits import Limits
from changeover.ids import run_id
from changeover.relay.events import ApprovalDecided, CallRefused, UserSpoke
from changeover.relay.turn import Travelling, Turn


class Account:
    """What one agent has spent so far."""

    __slots__ = ("cost", "handoffs", "input_tokens", "output_tokens", "requests", "retries", "turns")

    def __init__(self) -> None:
        self.handoffs = self.turns = self.retries = 0
        self.input_tokens = self.output_tokens = self.requests = 0
        self.cost: float | None = 0.0
        """None from the first call on whose price is unknown."""

    def pay(self, usage: Usage) -> None:
        """Count what a model was asked."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.requests += usage.requests
        if self.cost is not None:
            self.cost = None if usage.cost is None else self.cost + usage.cost

    @property
    def own_usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.requests, self.cost if self.requests else None)

    def share(self) -> Share:
        """The same, to be kept."""
        return Share(self.handoffs, self.turns, self.retries, self.own_usage)


class Unreckoned(Mapping[str, Share]):
    """Who spent what, reckoned when somebody looks: most guards do not, and are asked with every handoff."""

    __slots__ = ("_found", "_reckon")

    def __init__(self, reckon: Callable[[], Mapping[str, Share]]) -> None:
        self._reckon = reckon
        self._found: Mapping[str, Share] | None = None

    @property
    def _shares(self) -> Mapping[str, Share]:
        if self._found is None:
            self._found = self._reckon()
        return self._found

    def __getitem__(self, agent: str) -> Share:
        return self._shares[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shares)

    def __len__(self) -> int:
        return len(self._shares)


def joined(one: Mapping[str, Share], other: Mapping[str, Share]) -> dict[str, Share]:
    """What each spent of both."""
    both = dict(one)
    for agent, share in other.items():
        both[agent] = both[agent] + share if agent in both else share
    return both


NOTHING = Spent()


class Thinking(Struct, frozen=True, gc=False):
    """The active agent owes a reply; `due` is the id of the command that gets it."""

    due: str
    attempt: int = 1
    not_before: float = 0.0


class Awaiting(Struct, frozen=True, gc=False):
    """The active member is a person, who was asked and has not answered."""

    due: str
    request: ApprovalRequest


class Acting(Struct, frozen=True, gc=False):
    """The calls of a reply are being answered."""

    turn: Turn


class Replied(Struct, frozen=True, gc=False):
    """The active agent said its last word."""

    text: str
    at: int = 0
    """Where in the log it stands."""
    judged: bool = False
    problem: str = ""
    """What is wrong with it, by what was expected."""


class Broken(Struct, frozen=True, gc=False):
    """The run cannot go on."""

    fault: Fault


class Stopping(Struct, frozen=True, gc=False):
    """The run is over, and its delegates are being called back; without a fault it was cancelled."""

    fault: Fault | None
    turn: Turn | None


Phase = Thinking | Awaiting | Acting | Replied | Broken | Stopping
TURNING = (Acting, Stopping)
"""Phases that have a turn. A tuple: a union would be made anew wherever it is asked for."""


class Refusal(Struct, frozen=True, gc=False):
    """A handoff that was declined: the next one of the same task follows it."""

    task: int
    handoff: str
    attempt: int
    by: tuple[str, ...]
    """Everybody who declined so far."""


TaskStatus = Literal["pending", "running", "waiting", "completed", "failed", "cancelled"]


class Task(Struct, gc=False):
    """One agent's part of a run."""

    position: int = 0
    """Of the event with which it began; 0 before the first run."""
    run: str = ""
    agent: str = ""
    """The agent that got it; code, if code offers a package."""
    input: str = ""
    handoff: str | None = None
    """The handoff by which the agent got it."""
    status: TaskStatus = "running"

    def begin(self) -> None:
        """The agent showed a sign of life."""
        if self.status == "pending":
            self.status = "running"

    def go_on(self) -> None:
        """A person decided what the task waited for."""
        if self.status == "waiting":
            self.status = "running"


class Waiting(Struct, gc=False):
    """How long people were awaited."""

    asked: int = 0
    """How many questions are open."""
    since: float = 0.0
    before: float = 0.0

    def ask(self, at: float) -> None:
        if not self.asked:
            self.since = at
        self.asked += 1

    def hear(self, at: float) -> None:
        self.asked -= 1
        if not self.asked:
            self.before += at - self.since

    def give_up(self, at: float) -> None:
        """Nobody is awaited any more, whatever was asked."""
        self.before, self.asked = self.until(at), 0

    def rest(self, since: float, at: float) -> None:
        """Nobody worked in between, since it was over: that is no time of the run either."""
        self.before += at - since

    def until(self, at: float) -> float:
        """In all by then."""
        return self.before + (at - self.since if self.asked else 0.0)


class Run(Account):
    """From one user message to its answer."""

    __slots__ = (
        "accounts",
        "agents",
        "at",
        "below",
        "declined",
        "delegates",
        "fell_back",
        "fired",
        "first",
        "id",
        "last_word",
        "limits",
        "misjudged",
        "mistake",
        "phase",
        "progress",
        "queued",
        "ref",
        "repairs",
        "spoken",
        "strikes",
        "struck",
        "ticket",
        "tier",
        "told",
        "tool_calls",
        "trail",
        "under_way",
        "verdict",
        "waiting",
        "worn_out",
    )

    def __init__(self, conversation: str, id: int, spoken: UserSpoke, at: float, first: int, phase: Phase) -> None:
        super().__init__()
        self.id, self.ref = id, run_id(conversation, id)
        self.spoken, self.at, self.phase = spoken, at, phase
        self.first = first
        """How many handoffs the conversation had before."""
        self.limits: Limits | None = spoken.limits
        """Those that it was given, or that its task was found to need; else the team's."""
        self.tier = ""
        """What kind of task it was found to be, if that was asked."""
        self.agents: set[str] = set()
        """Everybody who has worked for it, or is to."""
        self.accounts: dict[str, Account] = {}
        """What each agent spent here; what delegates spent is theirs."""
        self.strikes = self.tool_calls = self.repairs = 0
        self.below = NOTHING
        """What delegates have spent, and everybody below them."""
        self.mistake: CallRefused | None = None
        """The last call that could not work."""
        self.fell_back = False
        """Whether a handoff could not be made, so that its agent goes on alone."""
        self.last_word = False
        """Whether an agent has spoken after it was told that all is spent."""
        self.under_way = ""
        """The call of a model that was already made when time ran out: nobody was told in it."""
        self.fired: set[str] = set()
        """The rules that have led somewhere."""
        self.misjudged: set[str] = set()
        """The rules that could not say whether they hold."""
        self.told = False
        """Whether the agent was told that no handoff is left."""
        self.delegates = False
        """Whether somebody worked for it in a conversation of its own."""
        self.struck: LimitFault | None = None
        """A limit of the whole run that a delegate ran into."""
        self.trail: list[Passed] = []
        """The transfers that were taken so far."""
        self.progress = 0
        """How often something was achieved."""
        self.declined: dict[str, Refusal] = {}
        """The last handoff of each way that nobody took, until one is taken."""
        self.verdict: ApprovalDecided | None = None
        """What the person said who is the active member."""
        self.waiting = Waiting()
        self.ticket = ""
        """By which the active agent's work is claimed, if it is served by claims."""
        self.worn_out = False
        """Nobody who claimed it finished it."""
        self.queued = False
        """Whether something was offered to somebody who is served by claims."""

    def brokers(self, turn: Turn) -> bool:
        """Whether code wants somebody found who can do it, and this is the turn that says so."""
        return turn.code and self.spoken.no_takers is not None

    def account(self, agent: str) -> Account:
        """What this agent has spent."""
        found = self.accounts.get(agent)
        if found is None:
            found = self.accounts[agent] = Account()
        return found

    def spend(self, agent: str, usage: Usage) -> None:
        """Count one reply."""
        self.turns += 1
        self.account(agent).turns += 1
        self.charge(agent, usage)

    def charge(self, agent: str, usage: Usage) -> None:
        """Count what a model was asked for an agent, whoever asked it."""
        self.pay(usage)
        self.account(agent).pay(usage)

    def count_retry(self, agent: str) -> None:
        """Count a call of a model that is tried again."""
        self.retries += 1
        self.account(agent).retries += 1

    def count_handoff(self, agent: str, more: int = 1) -> None:
        """Count a handoff that this agent offers, or take back what came to nothing."""
        self.handoffs += more
        self.account(agent).handoffs += more

    def take_back(self, spent: Spent) -> None:
        """Count what a delegate spent."""
        before = self.below
        self.below = Spent(
            before.turns + spent.turns,
            before.handoffs + spent.handoffs,
            before.retries + spent.retries,
            before.usage + spent.usage,
            waited=before.waited + spent.waited,
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
        """Of all calls, those of delegates included: 0 if there were none, None if one of them is unknown."""
        if self.below is NOTHING:
            return self.cost if self.requests else 0.0
        usage = self.usage
        return usage.cost if usage.requests else 0.0

    def spent(self) -> Spent:
        """All that this run cost, with everybody below it."""
        below = self.below
        return Spent(
            self.turns + below.turns,
            self.handoffs + below.handoffs,
            self.retries + below.retries,
            self.usage,
            tuple(sorted(self.agents)),
            self.waiting.before + below.waited,
            self.shares(),
        )

    def shares(self) -> dict[str, Share]:
        """Who spent what, delegates included."""
        own = {agent: account.share() for agent, account in self.accounts.items()}
        return joined(self.below.shares, own) if self.below.shares else own

    def ledger(self, now: float) -> Ledger:
        """What the run has spent by `now`, its delegates included."""
        return self._ledger(now, self.shares())

    def passing_ledger(self, now: float) -> Ledger:
        """The same for whoever looks at it now, and does not keep it."""
        return self._ledger(now, Unreckoned(self.shares))

    def _ledger(self, now: float, shares: Mapping[str, Share]) -> Ledger:
        below = self.below
        handoffs, turns = self.handoffs + below.handoffs, self.turns + below.turns
        retries, agents = self.retries + below.retries, len(self.agents)
        return Ledger(handoffs, turns, self.tokens, self.whole_cost, agents, retries, now - self.at, shares)


class Outcome(Struct, frozen=True, gc=False):
    """How a run ended, with all that its result is made of."""

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
    """What came back to code that offered a package."""
    undone: bool = False
    """Whether control went back afterwards to whoever had it before, so that there is nothing to try again."""

    @property
    def resumable(self) -> bool:
        """Whether its failed step can be tried again."""
        return self.fault is not None and not self.undone
