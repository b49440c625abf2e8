"""Histories of workflows: how long they are, and whether the shell replays them."""

from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from changeover import Temporal
from changeover.engines.temporal.shell import Shell
from tests.public_api import soon

HISTORIES = Path(__file__).with_name("histories")


async def histories(engine: Temporal) -> list[WorkflowHistory]:
    """The histories of all workflows of a queue, the oldest first, once they have ended."""
    client = await Client.connect(engine.address)
    assert await soon(lambda: found(client, f"TaskQueue='{engine.queue}' AND ExecutionStatus='Running'", 0), 30)
    ended = [each async for each in client.list_workflows(f"TaskQueue='{engine.queue}'")]
    handles = [client.get_workflow_handle(each.id, run_id=each.run_id) for each in ended]
    return [await handle.fetch_history() for handle in handles][::-1]


async def found(client: Client, query: str, count: int) -> bool:
    """True if so many workflows fit the query."""
    return (await client.count_workflows(query)).count == count


async def rests(engine: Temporal, conversation: str) -> bool:
    """True if the workflow of a conversation waits, and no leg is under way."""
    handle = (await Client.connect(engine.address)).get_workflow_handle(f"{engine.queue}/{conversation}")
    now = (await handle.describe()).raw_description
    return not (now.pending_activities or now.HasField("pending_workflow_task"))


def size(history: WorkflowHistory) -> int:
    return sum(len(event.SerializeToString()) for event in history.events)


async def replay(history: WorkflowHistory) -> None:
    # Debug mode: a busy machine is not taken for a deadlock.
    replayer = Replayer(workflows=[Shell], workflow_runner=UnsandboxedWorkflowRunner(), debug_mode=True)
    await replayer.replay_workflow(history)
