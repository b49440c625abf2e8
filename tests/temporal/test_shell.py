"""The shell of a workflow beside legs that the test ends itself."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from changeover.engines.temporal.shell import ADVANCE, WORKFLOW, Call, Leg, Report, Shell, Start, Terms
from tests.temporal.server import server

FLAGS = "temporalio.worker._workflow._DEFAULT_ENABLED_WORKFLOW_LOGIC_FLAGS"


class Tree:
    """A conversation whose workflow is worked on only in `shell()`, so that what comes between arrives at once."""

    def __init__(self, client: Client) -> None:
        self._client, self._queue = client, uuid4().hex
        self._begun = asyncio.Queue[bytes]()

    @activity.defn(name=ADVANCE)
    async def advance(self, leg: Leg) -> Report:
        self._begun.put_nowait(activity.info().task_token)
        activity.raise_complete_async()

    def legs(self) -> Worker:
        return Worker(self._client, task_queue=self._queue, activities=[self.advance])

    def shell(self) -> Worker:
        runner, soon = UnsandboxedWorkflowRunner(), timedelta(seconds=0.5)
        options = {"workflow_runner": runner, "sticky_queue_schedule_to_start_timeout": soon}
        return Worker(self._client, task_queue=self._queue, workflows=[Shell], **options)  # type: ignore[arg-type]

    async def call(self, at: int) -> None:
        await self._client.start_workflow(
            WORKFLOW,
            Start("c", Terms(self._queue, heartbeat=30, leg=60, unclaimed=30)),
            id=self._queue,
            task_queue=self._queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="call",
            start_signal_args=[Call("c", at)],
        )

    async def begun(self) -> bytes:
        return await asyncio.wait_for(self._begun.get(), 20)

    async def end(self, leg: bytes, at: int) -> None:
        await self._client.get_async_activity_handle(task_token=leg).complete(Report(at, over=True))

    async def ended(self) -> None:
        await asyncio.wait_for(self._client.get_workflow_handle(self._queue).result(), 20)


# Flag 2 has temporalio hand over all that arrives in a workflow task at once; later releases set it by default.
@pytest.mark.parametrize("flags", [(), (1, 2)], ids=["one after another", "at once"])
@pytest.mark.parametrize("order", ["call, end", "end, call", "call, call, end"])
async def test_a_call_that_arrives_with_the_end_of_a_leg_begins_another_one(
    order: str, flags: Sequence[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(FLAGS, frozenset(flags))
    tree = Tree(await Client.connect(server()))
    async with tree.legs():
        async with tree.shell():
            await tree.call(3)
            leg = await tree.begun()
        for step in order.split(", "):
            await (tree.end(leg, 6) if step == "end" else tree.call(8))
        async with tree.shell():
            await tree.end(await tree.begun(), 8)
            await tree.ended()
