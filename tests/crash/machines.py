"""State machines of this folder: how they run, and a team under one, on a loop and a clock of its own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from changeover import Reject, Respond, Team
from changeover.errors import ChangeoverError, ConversationNotFound, EngineError
from changeover.guards.approval import Decision
from changeover.testing import ManualClock
from tests.crash.watcher import Watcher


def run_machine(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    """Let a machine do what it likes, so many times and so many steps each."""
    # Hypothesis reads the machine's source first, and CPython 3.11 stumbles over that (a SystemError about the depth of
    # a syntax tree) if what earlier tests left behind is collected meanwhile and has something to say.
    gc.collect()
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def assert_same(one: Callable[[], set[str]], other: Callable[[], set[str]], wrong: str, looks: int = 1) -> None:
    """Both see the same; where something may be recorded between one look and the other, in one of so many looks."""
    for _ in range(looks - 1):
        if one() == other():
            return
    assert one() == other(), wrong


CONVERSATIONS = ("c", "d")

LAST: dict[str, Decision] = {
    "approval": Reject("late"),
    "permission": Reject("late"),
    "escalation": Respond("answered"),
    "task": Respond("answered"),
}
"""How people decide in the end, so that it comes to an end."""


class Living(RuleBasedStateMachine):
    """Whatever its rules do, each lets everything settle that follows from it."""

    looks = 1
    """How often what is shown may differ from what is awaited, because something is recorded between two looks."""
    team: Team
    watcher: Watcher

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.roots: list[str] = list(CONVERSATIONS)
        self.asked: list[asyncio.Task[Any]] = []
        self.count = 0

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def settled() -> Any:
            try:
                return await work
            finally:
                await self._settle()

        return self.loop.run_until_complete(settled())

    def _ask(self, work: Coroutine[Any, Any, Any]) -> None:
        self.asked.append(self.loop.create_task(work))
        self._do(self._settle())

    async def _settle(self) -> None:
        """Return when nothing more is recorded."""
        quiet = 0
        while quiet < 3:
            before = self.watcher.seen
            await self._breathe()
            await self._look()
            quiet = quiet + 1 if self.watcher.seen == before else 0

    async def _breathe(self) -> None:
        """Let others go on."""
        await self.clock.advance(0)

    async def _look(self) -> None:
        for root in self.roots:
            with suppress(ConversationNotFound):
                self.watcher.look(await self.team.history(root))

    def _check(self) -> None:
        """What holds at any time: of the log, of what people are shown, and of what callers were told."""
        self.watcher.check()
        assert_same(self._shown, self.watcher.awaited, "what people are shown is not what is awaited", self.looks)
        self._look_at_callers()

    def _shown(self) -> set[str]:
        return {request.id for request in self._do(self.team.approvals())}

    def _look_at_callers(self) -> None:
        """Every error that a caller got names a cause, and no internals."""
        for task in self.asked:
            if task.done() and isinstance(error := task.exception(), Exception):
                assert isinstance(error, ChangeoverError), f"a caller was told {error!r}"
                assert not isinstance(error, EngineError), f"a caller was told of the machinery: {error!r}"

    def teardown(self) -> None:
        try:
            self._do(self._end())
        finally:
            self.loop.run_until_complete(self._leave())
            self.loop.close()

    async def _end(self) -> None:
        """What was left is taken up, and people decide what they are asked: then all has ended."""
        raise NotImplementedError

    async def _decide_all(self) -> None:
        """A caller waits only for a person; when all is decided, all has ended."""
        for _ in range(200):
            await self._pass_time()
            waiting = await self.team.approvals()
            for state in self.watcher.under_way():
                root = state.id.partition("/")[0]
                mine = [each for each in waiting if each.conversation.partition("/")[0] == root]
                assert mine, f"{state.id} neither ends nor waits for a person: {state.run and state.run.phase}"
            if not waiting:
                break
            await self.team.decide(waiting[0], LAST[waiting[0].kind], by="ana")
        assert not await self.team.approvals(), "there is no end to what people are asked"
        assert [state.id for state in self.watcher.under_way()] == []

    async def _pass_time(self) -> None:
        """Wait until there was no progress for longer than any deadline: queued work is done one after the other."""
        quiet = 0
        while quiet < 20:
            before = self.watcher.seen
            await self._settle()
            await self.clock.advance(100)
            quiet = quiet + 1 if self.watcher.seen == before else 0
        await self._settle()
        self.watcher.check()

    def _check_waiters(self) -> None:
        self._look_at_callers()
        waiting = [task for task in self.asked if not task.done()]
        assert not waiting, f"callers wait for ever: {waiting}"

    async def _leave(self) -> None:
        await self.team.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
