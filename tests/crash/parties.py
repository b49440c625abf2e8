"""A small team that follows plans, and can make every transition of the handoff protocol.

What a user says, and what a task says, is a plan: words, each of them one turn of the model that reads it.

    look, pay       call a tool; about `pay` a person is asked      wait    take a while, and then look
    >billing/no     hand over, and say beside it how to answer      !       fail for good
    *clerk/later    delegate: the rest of the plan, after a `:`, is the delegate's own

Answers: yes, no, nobody (declined by all), later (after a while), never (not in time), permit, context.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

from changeover import Agent, Limits, Person, Team, delegate, handoff, tool
from changeover.agent.agent import Member
from changeover.errors import ModelError
from changeover.messages import Assistant, User
from changeover.protocol import Accepted, Conditional, Expects, HandoffPackage, Rejected, Rollback
from changeover.relay.ports.world import Clock, Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import Reply, assert_valid_history, calls, delegates, hands_off, says
from changeover.testing.scripted import resolve

AGENTS = ("triage", "billing", "sales", "clerk")
CLOSED, PEOPLE = ("closed",), ("ana",)
RECEIVERS = (*AGENTS[1:], *CLOSED, *PEOPLE)
ANSWERS = ("yes", "no", "nobody", "later", "never", "permit", "context")
TIMEOUT = 60.0
WHILE, AGES = 20.0, 500.0
"""Seconds that an agent takes, and that a late one takes."""


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "looked"


@tool(approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


class Parties:
    """What the members of the team do, and what went wrong with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wrong: list[str] = []
        self.cleaned: list[str] = []
        """The keys of cleanups."""

    def team(self, **options: Any) -> Team:
        members = [self._agent(id) for id in AGENTS]
        people = [Person(id) for id in PEOPLE]
        closed = [Agent(id, accepts_handoffs=False) for id in CLOSED]
        limits = Limits(max_handoffs=30, max_turns=100)
        return Team([*members, *closed, *people], model=self, clock=self._clock, limits=limits, **options)

    def _agent(self, id: str) -> Member:
        ways: list[Any] = []
        for other in RECEIVERS:
            if other != id:
                after = [each for each in ("sales", "billing") if each not in (id, other)]
                transfer = handoff(other, timeout=TIMEOUT, alternatives=after, on_rollback=self._clean)
                ways += [transfer, delegate(other, timeout=TIMEOUT, alternatives=after, expects=EXPECTED)]
        return Agent(id, handoffs=ways, accepts=self._accepts(id), tools=[look, pay])

    def _accepts(self, id: str) -> Callable[[HandoffPackage], Any]:
        async def accepts(package: HandoffPackage) -> Any:
            said = package.task.description.partition(" ")[0].partition("/")[2].partition(":")[0]
            if said in ("later", "never"):
                await self._clock.sleep_until(self._clock.now() + (WHILE if said == "later" else AGES))
            first = package.metadata.attempt == 1
            match said:
                case "no" if first:
                    return Rejected("not mine")
                case "nobody":
                    return Rejected("nobody's")
                case "permit":
                    return Conditional(needs_permission=("it",))
                case "context" if first:
                    return Conditional(needs_more_context=("more",))
            return Accepted()

        return accepts

    async def _clean(self, rollback: Rollback) -> None:
        self.cleaned.append(rollback.idempotency_key)
        if self.cleaned.count(rollback.idempotency_key) == 1:
            raise ConnectionError("not the first time")

    async def reply(self, request: Request) -> Reply:
        try:
            assert_valid_history(request)
        except AssertionError as error:
            self.wrong.append(f"{request.conversation}:{request.command}: {error}")
        words, done = _plan(request)
        if done >= len(words):
            return says(f"{request.agent} is done")
        return resolve(await self._turn(words[done], request), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield await self.reply(request)

    async def _turn(self, word: str, request: Request) -> Reply:
        rest = word[1:]
        if word == "!":
            raise ModelError("out of order", agent=request.agent, retryable=False)
        if word.startswith(">"):
            return hands_off(rest.partition("/")[0], f"/{rest.partition('/')[2]}")
        if word.startswith("*"):
            head, _, below = rest.partition(":")
            who, _, answer = head.partition("/")
            return delegates(who, f"/{answer}: {below.replace(',', ' ')}")
        if word == "wait":
            await self._clock.sleep_until(self._clock.now() + WHILE)
        return calls(("pay" if word == "pay" else "look", {}))


def _good(text: str) -> bool:
    return "done" in text or "looked" in text or "answered" in text


EXPECTED = Expects(criteria=[_good])


def _plan(request: Request) -> tuple[list[str], int]:
    """The words of the last thing that was asked for, and how many turns were taken since."""
    spoke = max(index for index, message in enumerate(request.messages) if isinstance(message, User))
    words = request.messages[spoke].text.split()
    if words and words[0].startswith("/"):
        words = words[1:]
    done = sum(isinstance(message, Assistant) for message in request.messages[spoke:])
    return words, done
