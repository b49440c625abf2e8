"""Five hops against one agent: the tokens of the same job, alone and after a long chat, and the facts that lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.context import LIMITS, can_fetch, read_text
from bench.grid import Grid
from bench.handovers import STRATEGIES, VAGUE
from bench.histories import History, Planted
from bench.shapes import Meter
from bench.talk import Talk
from changeover import Agent, Team, tool
from changeover.handoffs.strategies import FETCH, Strategy
from changeover.messages import Assistant, Message, Reply
from changeover.testing import ManualClock, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import Tool, ToolDefinition

FIELDS = ("orders", "stock", "shipping", "billing", "letters")
RULES = (
    "You are responsible for {field}. Look at what the systems say before you promise anything, quote numbers exactly"
    " as they are given, and never guess a quantity, a date or a name. If something about {field} cannot be found, say"
    " so and name what would be needed to go on. Record every step with its reason, because {field} are audited once a"
    " year. Do not do the work of another department: what is not about {field} is handed on with one sentence that"
    " says what was done and what is left. Be brief, be polite, and use the language of the customer. Internal names,"
    " margins and other customers are never mentioned, neither to the customer nor in letters that leave the house."
)
HEAD = ("job", "strategy", "tokens", "of one agent", "missing")


class Job(NamedTuple):
    """A chat that went before, what is asked then, and the fact that each field needs."""

    name: str
    chat: str
    asked: str
    needs: Sequence[Planted]


def short_job(history: History) -> Job:
    """The job alone: the user tells the facts with the request."""
    needs = [fact for fact in history.facts if not fact.outdated][: len(FIELDS)]
    told = " ".join(f"{fact.question} It is {fact.value}." for fact in needs)
    return Job("short", "", f"Please settle all of it. {told}", needs)


def after_chat(history: History) -> Job:
    """The job after a history, in which the user told the facts."""
    return Job(f"after {history.name}", history.text, "Please settle all of it.", history.facts[: len(FIELDS)])


class Cost(NamedTuple):
    """The tokens of all requests and replies of a job, and the facts that an agent could not find."""

    tokens: int
    missing: int


def _tool(field: str) -> Tool:
    def settle(reference: str) -> str:
        """Settle what is open with a reference, and record it."""
        return f"{field}: settled {reference}, recorded under {sum(map(ord, reference))}, nothing else is open"

    return tool(name=f"settle_{field}")(settle)


def _agent(name: str, fields: Sequence[str], next_agent: str, **options: Any) -> Agent:
    rules = "\n\n".join(RULES.format(field=field) for field in fields)
    ways = [next_agent] if next_agent else []
    return Agent(name, instructions=rules, tools=[_tool(field) for field in fields], handoffs=ways, **options)


class Worker(NamedTuple):
    """An agent that looks for the facts of its fields, settles each, and ends with `last`."""

    name: str
    needs: Sequence[tuple[str, Planted]]
    last: Reply
    missing: list[Planted]

    def plays(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        names = [
            call.name
            for each in messages
            if isinstance(each, Assistant) and each.agent == self.name
            for call in each.calls
        ]
        done = sum(name.startswith("settle_") for name in names)
        unknown = [fact for _, fact in self.needs if fact.value not in read_text(messages)]
        if unknown and FETCH not in names and can_fetch(tools):
            queries: list[Any] = [(FETCH, {"query": fact.question}) for fact in unknown]
            return calls(*queries)
        if done == 0:
            self.missing.extend(unknown)
        if done == len(self.needs):
            return self.last
        field, fact = self.needs[done]
        return calls((f"settle_{field}", {"reference": fact.value}))


async def cost(job: Job, strategy: Strategy | None) -> Cost:
    """The cost of a job by five agents that hand on with this strategy; without one, by one agent."""
    missing: list[Planted] = []
    needs = list(zip(FIELDS, job.needs, strict=True))
    end = says("All is settled.")
    if strategy is None:
        workers = [Worker("desk", needs, end, missing)]
        members = [_agent("desk", FIELDS, "")]
    else:
        ways = [*FIELDS[1:], ""]
        lasts = [hands_off(way, "My part is done, please go on.") if way else end for way in ways]
        workers = [Worker(need[0], [need], last, missing) for need, last in zip(needs, lasts, strict=True)]
        members = [_agent("desk", (), FIELDS[0]), *(_agent(f, [f], way) for f, way in zip(FIELDS, ways, strict=True))]
    return await _run(job, members, {worker.name: worker.plays for worker in workers}, strategy, missing)


Plays = Callable[[Sequence[Message], Sequence[ToolDefinition]], Reply]


async def _run(
    job: Job, members: list[Agent], parts: dict[str, Plays], strategy: Strategy | None, missing: list[Planted]
) -> Cost:
    talk = Talk(job.chat) if job.chat else None
    said = list(talk.lines["desk"]) if talk else []

    def plays(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if said:
            return said.pop(0)
        if agent in parts:
            return parts[agent](messages, tools)
        return hands_off(FIELDS[0], "Please settle this.")

    meter, helper = Meter(ScriptedModel(plays)), Meter(ScriptedModel(lambda agent, messages, tools: VAGUE))
    options: dict[str, Any] = {"helper_model": helper, "strategy": strategy, "limits": LIMITS, "clock": ManualClock()}
    async with Team(members, model=meter, **options) as team:
        for turn in talk.turns if talk else ():
            await team.run(turn.text, conversation="job")
        before = meter.tokens + helper.tokens
        result = await team.run(job.asked, conversation="job", agent="desk")
    assert result.output == "All is settled."
    return Cost(meter.tokens + helper.tokens - before, len(missing))


Costs = dict[tuple[str, str], Cost]
"""By job and strategy; the baseline has none."""


async def costs(jobs: Sequence[Job]) -> Costs:
    """Measure these jobs by one agent, and with every strategy."""
    found: Costs = {}
    for job in jobs:
        found[job.name, ""] = await cost(job, None)
        for name, strategy in STRATEGIES.items():
            found[job.name, name] = await cost(job, strategy)
    return found


def five_hops(measured: Costs) -> Grid:
    """The table of what five hops cost."""
    rows, before = [], ""
    for (job, name), each in measured.items():
        title, before = "" if job == before else job, job
        ratio = each.tokens / measured[job, ""].tokens
        rows.append((title, name or "one agent", f"{each.tokens:,}", f"{ratio:.2f} x", str(each.missing)))
    return Grid("Five hops against one agent", HEAD, rows)
