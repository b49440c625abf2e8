"""Connection: one client of Temporal. It calls workflows, and finds out which task queues are served."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from temporalio.api.enums.v1 import PendingWorkflowTaskState, TaskQueueType, WorkflowExecutionStatus
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode

from changeover.engines.temporal import Temporal
from changeover.engines.temporal.shell import STATUS, WORKFLOW, Call, Start, Terms
from changeover.errors import EngineError
from changeover.ids import root_of

logger = logging.getLogger("changeover.engine")

CONVERSATION = SearchAttributeKey.for_keyword("ChangeoverConversation")
RETRY = 0.5
"""Seconds before a call that did not get through is repeated; they double up to eight."""
FRESH = 5.0
"""Seconds for which the cached list of agents that have workers of their own is used."""
SERVES = " serves "
"""Stands before the agents in the name of a worker."""
QUIET = 2.0
"""Seconds without news after which it is checked that a worker serves a conversation; then after twice as many, so
that many callers who wait cost Temporal little."""
MANY = 10_000
"""Number of conversations whose last call is remembered."""
REFUSALS = (
    RPCStatusCode.INVALID_ARGUMENT,
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
)
"""Errors of a call that will not pass by themselves: of its ids, the namespace or the API key."""
RUNNING = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
ACTIVITY, WORKFLOW_TASK = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW


@cache
def _runtime() -> Runtime:
    """Temporal's own threads in this process: they log as the engine does, not to the standard output."""
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    forwarding = LogForwardingConfig(logger, append_target_to_name=False)
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(levels, forwarding=forwarding)))


class Connection:
    """The client of one event loop, connected when it is first needed."""

    def __init__(self, settings: Temporal, team: str) -> None:
        self._settings = settings
        self.queue = f"{settings.queue}.{team}" if team else settings.queue
        """The default task queue of the team."""
        self._connecting: asyncio.Task[Client] | None = None
        self._attributes = False
        self._error: Exception | None = None
        self._waiting: dict[str, Call] = {}
        """Calls that have not got through yet, by conversation."""
        self._refused: dict[str, RPCError] = {}
        """Why Temporal refused the calls of conversations."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._own = set[str]()
        """Agents that have workers of their own."""
        self._looking: asyncio.Task[None] | None = None
        self._fresh_until = 0.0
        self._called: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """When conversations were called last, and when they are to be checked."""

    async def client(self) -> Client:
        """The connected client; waits for as long as Temporal cannot be reached."""
        if self._connecting is None:
            self._connecting = self._begin(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Client:
        given, pause = self._settings, RETRY
        key = given.key
        while True:
            try:
                tls = given.tls or bool(key)
                client = await Client.connect(
                    given.address, namespace=given.namespace, tls=tls, api_key=key, runtime=_runtime()
                )
                self._attributes = await self._has_attributes(client)
            except (RuntimeError, RPCError) as error:
                logger.warning("Temporal at %s cannot be reached, and is tried again: %s", given.address, error)
                self._error = error
                await asyncio.sleep(pause)
                pause = min(8.0, 2 * pause)
            else:
                self._error = None
                return client

    async def _has_attributes(self, client: Client) -> bool:
        """True if the namespace has our search attributes."""
        try:
            request = ListSearchAttributesRequest(namespace=client.namespace)
            known = (await client.operator_service.list_search_attributes(request)).custom_attributes
        except RPCError as error:  # not every caller may ask
            logger.warning("search attributes of Temporal cannot be listed, and are not set: %s", error)
            return False
        missing = [key.name for key in (CONVERSATION, STATUS) if key.name not in known]
        if missing:
            logger.info("the namespace %s has no search attribute %s", client.namespace, " and ".join(missing))
        return not missing

    def call(self, call: Call) -> None:
        """Call the workflow of a conversation's tree, now and again until it gets through."""
        before = self._waiting.get(call.conversation)
        self._note(call.conversation)
        if before is not None and not call.more and (before.at < 0 or 0 <= call.at <= before.at):
            return
        self._waiting[call.conversation] = replace(call, more=[*before.more, *call.more]) if before else call
        if before is None:
            _ = self._begin(self._send(call.conversation))

    async def _send(self, conversation: str) -> None:
        pause = RETRY
        while (call := self._waiting.get(conversation)) is not None:
            try:
                await self._signal(await self.client(), call)
            except RPCError as error:
                if error.status in REFUSALS:
                    self._refused[conversation] = error
                logger.warning("the call of %s is repeated: %s", conversation, error)
                await asyncio.sleep(pause)
                pause = min(8.0, 2 * pause)
            else:
                self._refused.pop(conversation, None)
                if self._waiting.get(conversation) is call:
                    del self._waiting[conversation]

    async def _signal(self, client: Client, call: Call) -> None:
        root = root_of(call.conversation)
        attributes = None
        if self._attributes:
            attributes = TypedSearchAttributes([SearchAttributePair(CONVERSATION, root)])
        await client.start_workflow(
            WORKFLOW,
            Start(root, self._terms()),
            id=self.workflow(root),
            task_queue=self.queue,
            task_timeout=timedelta(seconds=self._settings.task),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="call",
            start_signal_args=[call],
            search_attributes=attributes,
            static_summary=f"conversation {root}",
        )

    def _terms(self) -> Terms:
        given = self._settings
        return Terms(self.queue, given.heartbeat, given.leg, given.unclaimed, self._attributes, given.history)

    def workflow(self, root: str) -> str:
        """The id of the workflow of a root conversation."""
        return f"{self.queue}/{root}"

    def own_queue(self, agent: str) -> str:
        """The task queue of the workers that serve this agent by name."""
        return f"{self.queue}:{agent}"

    def identity(self, agents: Collection[str]) -> str:
        """The name of a worker, by which other processes know which agents it serves."""
        return f"{os.getpid()}@{socket.gethostname()}{SERVES if agents else ''}{','.join(agents)}"

    async def queue_of(self, agent: str) -> str:
        """The task queue on which an agent is served: its own if a worker serves that, else the default one."""
        await self.look_up()
        return self.known_queue(agent) or self.queue

    async def look_up(self) -> None:
        """Find out which agents have workers of their own, unless that was done a short while ago. All workers poll
        the default queue for the shells of workflows, so that their names say it."""
        if self._looking is None or (self._looking.done() and time.monotonic() >= self._fresh_until):
            self._looking = self._begin(self._look_up())
        await asyncio.shield(self._looking)

    async def _look_up(self) -> None:
        names = [each.identity.partition(SERVES)[2] for each in await self._pollers(self.queue, WORKFLOW_TASK)]
        self._own = {agent for name in names for agent in name.split(",") if agent}
        self._fresh_until = time.monotonic() + FRESH

    def known_queue(self, agent: str) -> str:
        """The task queue of an agent as far as this process knows; empty if a worker has to find out."""
        return self.own_queue(agent) if agent in self._own else ""

    async def _pollers(self, queue: str, kind: TaskQueueType.ValueType) -> Sequence[PollerInfo]:
        """The workers that have asked for work in a queue within the last minutes."""
        client = await self.client()
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        return (await client.workflow_service.describe_task_queue(request)).pollers

    def _note(self, conversation: str) -> None:
        now = time.monotonic()
        self._called[conversation] = (now, now + QUIET)
        self._called.move_to_end(conversation)
        if len(self._called) > MANY:
            self._called.popitem(last=False)

    def _is_due(self, conversation: str) -> bool:
        """True if it is time to ask Temporal about a conversation that was called a while ago."""
        now = time.monotonic()
        since, due = self._called.get(conversation, (now - QUIET, now))
        if now < due:
            return False
        self._called[conversation] = (since, now + (now - since))
        return True

    async def runs(self, root: str) -> bool:
        """True if the workflow of a root conversation is under way, as far as Temporal can tell now."""
        client = await self.client()
        try:
            found = (await client.get_workflow_handle(self.workflow(root)).describe()).raw_description
        except RPCError as error:
            return error.status is not RPCStatusCode.NOT_FOUND  # any other error may pass
        return bool(found.workflow_execution_info.status == RUNNING)

    async def check(self, conversation: str, agent: str) -> bool:
        """True if the workflow of a conversation is under way, as far as is known; raises EngineError if no worker
        serves it."""
        if not self._is_due(conversation):
            return True
        if self._error is not None:
            raise EngineError(
                f"Temporal at {self._settings.address} cannot be reached ({self._error}); "
                "the run is recorded, and begins when it can"
            )
        if (refused := self._refused.get(conversation)) is not None:
            raise EngineError(f"Temporal refuses the call of {conversation!r}: {refused}. The call is repeated")
        client = await self.client()
        try:
            found = (await client.get_workflow_handle(self.workflow(root_of(conversation))).describe()).raw_description
        except RPCError as error:
            return error.status is not RPCStatusCode.NOT_FOUND  # any other error may pass
        task, waiting = found.pending_workflow_task, PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
        if found.HasField("pending_workflow_task") and task.state == waiting:
            await self._require(WORKFLOW_TASK, self.queue)
        elif found.pending_activities and not any(
            each.HasField("last_started_time") for each in found.pending_activities
        ):
            # What an agent's own workers do not take goes to the default queue.
            await self._require(ACTIVITY, await self.queue_of(agent), self.queue)
        return bool(found.workflow_execution_info.status == RUNNING)

    async def _require(self, kind: TaskQueueType.ValueType, *queues: str) -> None:
        """Raise EngineError if no worker serves any of these queues."""
        for queue in queues:
            # A worker of this process may not have asked for work yet.
            own = self._settings.worker and queue == self.queue and not (kind == ACTIVITY and self._settings.agents)
            if own or await self._pollers(queue, kind):
                return
        raise EngineError(
            f"no worker serves the task queue {queues[0]!r} in the namespace {self._settings.namespace!r} of Temporal; "
            "start one with `changeover worker`. The run is recorded, and begins when one comes"
        )

    async def close(self) -> None:
        """Stop calling. What has not got through is found by the processes that take up unfinished work."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
