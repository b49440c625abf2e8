"""Stage: the teams and conversation that a story uses, and the effects that it had."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from changeover import Agent, RunResult, Team, Worker
from changeover.agent.agent import Member
from changeover.errors import ChangeoverError
from changeover.protocol import TicketClaim
from changeover.relay.events import Event
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Request
from changeover.testing import ManualClock, ScriptedModel
from changeover.ticket import retry

CONVERSATION = "story"

E = TypeVar("E", bound=ChangeoverError)


class Stage:
    """Runs a story, once or several times from its start: each message is recorded once.

    `options` go to every team. Teams without a store keep their log in memory, so that in a later life the same teams
    come on again; with a store they are built anew.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"clock": ManualClock(auto=True), **options}
        self._teams: list[Team] = []
        self._gone: list[Team] = []
        self._came = self._said = 0
        self._buried, self._burying = 1, asyncio.Lock()
        self._declared: list[tuple[tuple[Member, ...], str]] = []
        self._models: list[ScriptedModel] = []
        self.lives = 1
        self.outcomes: dict[int, RunResult | ChangeoverError] = {}
        """The outcome of each run, by the number of its message."""
        self.effects: list[str] = []
        """What tools and functions did to the world; it outlives a restart, as the world does."""

    def team(self, members: Sequence[Member], model: ScriptedModel | None = None, **options: Any) -> Team:
        """A team of the story."""
        if self._came == len(self._teams):
            self._remember(members, model)
            self._teams.append(Team(members, model=model, **{**self._options, **options}))
        self._came += 1
        return self._teams[self._came - 1]

    def say(self, team: Team, text: str, **options: Any) -> Coroutine[Any, Any, RunResult]:
        """Say something in the story's one conversation, unless `conversation=` names another."""
        # Counted when called, not when awaited: the order of concurrent messages is that of the source.
        self._said += 1
        key = f"say-{self._said}"
        return self._noted(self._said, self.run(team, text, {"conversation": CONVERSATION, "key": key, **options}))

    def say_again(self, team: Team, text: str, said: int = 0, **options: Any) -> Coroutine[Any, Any, RunResult]:
        """Send a message again, to get its outcome: the last one, unless `said` gives its number."""
        number = said or self._said
        key = f"say-{number}"
        return self._noted(number, self.run(team, text, {"conversation": CONVERSATION, "key": key, **options}))

    def flow(self, team: Team, workflow: str, inputs: Any = None, **options: Any) -> Coroutine[Any, Any, RunResult]:
        """Run a workflow in the story's one conversation, unless `conversation=` names another."""
        self._said += 1
        given = {"conversation": CONVERSATION, "key": f"say-{self._said}", **options}
        return self._noted(self._said, self.run_flow(team, workflow, inputs, given))

    async def flow_error(self, kind: type[E], team: Team, workflow: str, inputs: Any = None, **options: Any) -> E:
        """Run a workflow that ends with an error of this kind."""
        try:
            result = await self.flow(team, workflow, inputs, **options)
        except kind as error:
            return error
        raise AssertionError(f"expected {kind.__name__}, and got {result}")

    def run_flow(
        self, team: Team, workflow: str, inputs: Any, options: dict[str, Any]
    ) -> Coroutine[Any, Any, RunResult]:
        """How this stage lets a team run a workflow; another stage may read along."""
        return team.run_workflow(workflow, inputs, **options)

    def run(self, team: Team, text: str, options: dict[str, Any]) -> Coroutine[Any, Any, RunResult]:
        """How this stage lets a team run; another stage may read along."""
        return team.run(text, **options)

    async def error(self, kind: type[E], team: Team, text: str, **options: Any) -> E:
        """Say something that is answered by an error of this kind."""
        try:
            result = await self.say(team, text, **options)
        except kind as error:
            return error
        raise AssertionError(f"expected {kind.__name__}, and got {result}")

    async def claim(self, team: Team, agent: str, **options: Any) -> list[TicketClaim]:
        """Claim as the next worker would, without waiting for the leases of workers of an earlier life."""
        await self._bury(team)
        return await team.claim(agent, **{"by": "worker", **options})

    async def worker(self, team: Team, *agents: str, **options: Any) -> Worker:
        """A worker that starts after those of an earlier life are gone."""
        await self._bury(team)
        return Worker(team, agents, **options)

    async def _bury(self, team: Team) -> None:
        """Free the tickets of dead workers: once in each life, before a worker of this life claims anything."""
        async with self._burying:
            if self._buried < self.lives:
                await _free_all(team.log)
                self._buried = self.lives

    def requests(self, agent: str) -> list[Request]:
        """All that this agent's model was asked in this life, each request once.

        What was recorded in an earlier life is not asked again; so a story says what holds for every request, and has
        its models put into their replies what has to be known of a single one.
        """
        seen = {(request.conversation, request.command): request for request in self.seen if request.agent == agent}
        assert seen or self.lives > 1, f"the model of {agent!r} was never asked, so nothing is shown"
        return list(seen.values())

    @property
    def did(self) -> list[str]:
        """The effects; in a later life each once, for one whose outcome was not recorded had to happen again."""
        return list(dict.fromkeys(self.effects)) if self.lives > 1 else list(self.effects)

    @property
    def seen(self) -> list[Request]:
        """Every request of every model, in all lives that this stage remembers."""
        return [request for model in self._models for request in model.requests]

    def restart(self) -> None:
        """Go back to the start of the story; the world stays as it is."""
        self.lives += 1
        self._came = self._said = 0
        if "store" in self._options:
            self._gone += self._teams
            self._teams.clear()

    def changed(self) -> list[str]:
        """Declarations that do not look as they did when their team was built."""
        return [before for members, before in self._declared if repr(members) != before]

    async def close(self) -> None:
        for team in [*self._gone, *self._teams]:
            await team.close()

    async def _noted(self, number: int, run: Coroutine[Any, Any, RunResult]) -> RunResult:
        try:
            result = self.outcomes[number] = await run
        except ChangeoverError as error:
            self.outcomes[number] = error
            raise
        return result

    def _remember(self, members: Sequence[Member], model: ScriptedModel | None) -> None:
        self._declared.append((tuple(members), repr(tuple(members))))
        own = [member.model for member in members if isinstance(member, Agent)]
        self._models += [each for each in (model, *own) if isinstance(each, ScriptedModel)]


async def _free_all(log: Log) -> None:
    for queued in await log.queue.tickets():
        if queued.owner:
            await retry(log, queued.ticket.id)


Story = Callable[[Stage], Coroutine[Any, Any, None]]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    """Register a story for every suite. It must be deterministic, and repeatable from its start."""
    assert tell.__name__ not in STORIES, f"two stories are called {tell.__name__}"
    STORIES[tell.__name__] = tell
    return tell


T = TypeVar("T", bound=Event)


async def events(team: Team, kind: type[T], conversation: str = CONVERSATION) -> list[T]:
    """The events of one kind that a conversation's log holds."""
    return [record.event for record in await team.history(conversation) if isinstance(record.event, kind)]
