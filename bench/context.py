"""What the receiver of a handoff reads under each strategy, and which of the facts that it needs it can reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

from bench.facts import CASES, Case, Fact
from bench.grid import Grid
from bench.talk import Talk
from changeover import Agent, Full, Limits, MessageOnly, Recent, Reference, Summary, Team
from changeover.facts import HandoffRecord
from changeover.handoffs.strategies import FETCH, Strategy
from changeover.handoffs.tokens import count, weight
from changeover.messages import Assistant, Message, Reply, ToolResult, User
from changeover.relay.ports.world import Request
from changeover.testing import ScriptedModel, calls, says
from changeover.tools.tool import ToolDefinition


def read_weight(message: Message) -> int:
    """The tokens of a message and of its files."""
    return weight(message) + count(_attached(message))


def read_text(messages: Sequence[Message]) -> str:
    """The text of some messages."""
    return "\n".join(f"{each.text}\n{_attached(each)}" for each in messages)


def can_fetch(tools: Sequence[ToolDefinition]) -> bool:
    """True if these tools read what was left out."""
    return any(tool.name == FETCH for tool in tools)


def _attached(message: Message) -> str:
    files = message.files if isinstance(message, User) else ()
    return "\n".join(file.data.decode() for file in files)


LIMITS = Limits(max_handoffs=100, max_turns=500)
HEAD = ("conversation", "strategy", "tokens", "share", "in view", "by fetch", "lost", "an answer")

Play = Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Reply]


def strategies(needs: Sequence[str]) -> dict[str, Strategy]:
    """The strategies that are compared, by name."""
    return {
        "Full()": Full(),
        "Recent(5)": Recent(5),
        "MessageOnly()": MessageOnly(),
        "Summary(needs=[…])": Summary(needs=needs),
        "Reference()": Reference(),
    }


class Outcome(NamedTuple):
    """What a receiver read, and what it could fetch."""

    case: Case
    first: Request
    """The first request to its model."""
    fetched: dict[Fact, list[str]]
    """The result of each query."""
    summed_up: list[Request]
    """The requests to the summariser."""
    handoffs: list[HandoffRecord]

    @property
    def tokens(self) -> int:
        """The tokens of the first request."""
        return sum(map(read_weight, self.first.messages))

    @property
    def in_view(self) -> list[Fact]:
        """The facts in the first request."""
        text = f"{self.first.instructions}\n{read_text(self.first.messages)}"
        return [fact for fact in self.case.facts if fact.stands_in(text)]

    @property
    def by_fetch(self) -> list[Fact]:
        """The facts that it finds only by fetching."""
        found = [fact for fact, answers in self.fetched.items() if any(map(fact.stands_in, answers))]
        return [fact for fact in found if fact not in self.in_view]

    @property
    def lost(self) -> list[Fact]:
        """The facts that it cannot reach."""
        reached = [*self.in_view, *self.by_fetch]
        return [fact for fact in self.case.facts if fact not in reached]

    @property
    def answer(self) -> int:
        """The mean number of tokens that a query returns."""
        sizes = [count(text) for answers in self.fetched.values() for text in answers]
        return round(mean(sizes)) if sizes else 0


async def outcome_of(case: Case, strategy: Strategy) -> Outcome:
    """Play a talk with a team whose handoffs all use this strategy; its last agent fetches every fact."""
    talk = Talk.named(case.name)
    receiver, helper = ScriptedModel(_curious(case)), ScriptedModel({"helper": list(map(says, case.summaries))})
    last = Agent(case.receiver, instructions="Finish the work.", handoffs=[], model=receiver)
    model = ScriptedModel(talk.lines)
    members = [*talk.agents(), last]
    async with Team(members, model=model, helper_model=helper, strategy=strategy, limits=LIMITS) as team:
        handoffs = await talk.play(team, case.name)
    found = _found(case, receiver.requests[-1].messages)
    return Outcome(case, receiver.requests[0], found, helper.requests, handoffs)


def _curious(case: Case) -> Play:
    def plays(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        """Query every fact once, then answer."""
        if not can_fetch(tools) or isinstance(messages[-1], ToolResult):
            return says("That is all I need.")
        return calls(*((FETCH, {"query": fact.question}) for fact in case.facts))

    return plays


def _found(case: Case, messages: Sequence[Message]) -> dict[Fact, list[str]]:
    """The results of the receiver's queries."""
    texts = {message.call: message.text for message in messages if isinstance(message, ToolResult)}
    own = [message for message in messages if isinstance(message, Assistant) and message.agent == case.receiver]
    asked = [call for message in own for call in message.calls]
    return {
        fact: [texts[call.id] for call in asked if call.args["query"] == fact.question] for fact in case.facts if asked
    }


async def outcomes() -> dict[str, dict[str, Outcome]]:
    """Measure every conversation under every strategy."""
    return {
        case.name: {name: await outcome_of(case, strategy) for name, strategy in strategies(case.needs).items()}
        for case in CASES
    }


def receivers(measured: dict[str, dict[str, Outcome]]) -> Grid:
    """The table of what the receiver reads and can reach."""
    rows = []
    for of_case in measured.values():
        whole = of_case["Full()"]
        title = whole.case.name
        for name, each in of_case.items():
            share = f"{each.tokens / whole.tokens:.0%}"
            facts = (str(len(facts)) for facts in (each.in_view, each.by_fetch, each.lost))
            rows.append((title, name, f"{each.tokens:,}", share, *facts, f"{each.answer:,}" if each.answer else ""))
            title = ""
    return Grid("What the receiver of a handoff reads, and which of ten facts it can reach", HEAD, rows)
