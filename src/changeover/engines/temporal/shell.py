"""The workflow of a root conversation: a shell that says which worker goes on, and when.

It sees references only: conversations, positions in their logs, task queues and times. It imports nothing of the
library, so that a change to the library never changes what a recorded history means.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as Timeout
from temporalio.workflow import ActivityCancellationType

WORKFLOW = "Changeover"
ADVANCE = "advance"
STATUS = SearchAttributeKey.for_keyword("ChangeoverStatus")
PAUSE, LONGEST = 0.1, 10.0
"""Seconds before a leg that failed for good is begun anew: they double up to the second number."""


@dataclass
class Terms:
    """The settings of legs; a workflow keeps those with which it was started."""

    queue: str
    """The task queue of agents that have no worker of their own."""
    heartbeat: float
    leg: float
    """The most seconds that a leg may take."""
    unclaimed: float
    """After this time without a worker, a leg goes to the default queue."""
    attributes: bool = False
    history: int = 0
    """Number of events after which the workflow goes on with a new history as soon as no leg is under way. After twice
    as many, no leg is begun before that. 0 if only Temporal says when."""


@dataclass
class Call:
    """A process recorded an input in a conversation, or waits for its result."""

    conversation: str
    at: int = -1
    """The position that a worker has to see; -1 if it has to look in any case."""
    queue: str = ""
    more: list[Call] = field(default_factory=list)
    """Calls of other conversations of the tree: one signal costs less than many."""


@dataclass
class Leg:
    """What a worker is asked to do: go on with a conversation until nothing is left to do there."""

    conversation: str
    tracked: bool = False
    """True if this workflow knows every delegate for which the conversation waited after the last leg."""
    ended: list[str] = field(default_factory=list)
    """Delegates that have ended since."""
    unclaimed: bool = False
    """True if no worker of the agent's own took it: the worker that gets it serves the agent."""


@dataclass
class Report:
    """The end of a leg: what is left to do, where and when."""

    at: int
    """The position up to which the worker has seen the log."""
    over: bool = False
    """True if nothing is outstanding in the conversation."""
    status: str = ""
    above: str = ""
    """The conversation that waits for this one."""
    moved: bool = False
    """True if the next leg can begin at once, on `queue`."""
    queue: str = ""
    due: float | None = None
    paused: bool = False
    """True if a deadline of a delegate stands still while a person is awaited there."""
    below: list[Call] = field(default_factory=list)
    """Delegates that were given work."""


@dataclass
class Place:
    """What the shell knows of a conversation in which something is outstanding."""

    at: int = -1
    wanted: int = -1
    queue: str = ""
    above: str = ""
    due: float | None = None
    paused: bool = False
    tracked: bool = False
    called: bool = False
    unclaimed: bool = False
    failures: int = 0
    ended: list[str] = field(default_factory=list)


@dataclass
class Start:
    """The argument of the workflow."""

    root: str
    terms: Terms
    places: dict[str, Place] = field(default_factory=dict)


@workflow.defn(name=WORKFLOW)
class Shell:
    """Runs legs of the conversations of one tree, each on the queue of its active agent, one at a time of each."""

    @workflow.init
    def __init__(self, start: Start) -> None:
        self._terms, self._root = start.terms, start.root
        self._places: dict[str, Place] = {}
        self._bells: dict[str, asyncio.Event] = {}
        self._tending: set[asyncio.Task[None]] = set()
        self._legs: dict[str, workflow.ActivityHandle[Any]] = {}
        self._interrupted: set[str] = set()
        """Conversations whose leg was called to look again."""
        self._status = ""
        for id, place in start.places.items():
            self._open(id, place)

    @workflow.run
    async def run(self, start: Start) -> None:
        await workflow.wait_condition(lambda: not self._places or (self._full() and not self._legs))
        if self._places:
            workflow.continue_as_new(Start(self._root, self._terms, self._places))
        if self._terms.attributes and self._status:
            workflow.upsert_search_attributes([STATUS.value_set(self._status)])

    @workflow.signal
    def call(self, call: Call) -> None:
        """Have a worker go on with a conversation, unless one has seen that position already."""
        for each in call.more:
            self.call(each)
        place = self._places.get(call.conversation) or self._open(call.conversation, Place())
        if 0 <= call.at <= max(place.at, place.wanted):
            return
        place.queue = call.queue or place.queue
        place.wanted = max(place.wanted, call.at)
        place.called = place.called or call.at < 0 or call.conversation not in self._legs
        if (leg := self._legs.get(call.conversation)) is not None:
            self._interrupted.add(call.conversation)
            leg.cancel()  # the worker learns with its next heartbeat that it has to look again
        self._bells[call.conversation].set()

    @workflow.query
    def places(self) -> dict[str, Place]:
        """What is outstanding, for people who look at a workflow."""
        return self._places

    def _full(self, times: int = 1) -> bool:
        """True if the history is so many times as long as it should be, or longer than Temporal wants it."""
        info, most = workflow.info(), self._terms.history
        return info.is_continue_as_new_suggested() or 0 < times * most <= info.get_current_history_length()

    def _open(self, id: str, place: Place) -> Place:
        self._places[id], self._bells[id] = place, asyncio.Event()
        task = asyncio.create_task(self._tend(id, place))
        self._tending.add(task)
        task.add_done_callback(self._tending.discard)
        return place

    async def _tend(self, id: str, place: Place) -> None:
        """Run one leg of a conversation after another, until nothing is outstanding there."""
        while id in self._places:
            if not place.called:
                await self._pause(id, place)
            if self._full(times=2):  # there was no moment without a leg
                await asyncio.Event().wait()  # the next run of the workflow goes on from here
            await self._advance(id, place)

    async def _pause(self, id: str, place: Place) -> None:
        """Wait for a call or for the next deadline."""
        self._bells[id].clear()
        left = None if place.due is None else max(0.0, place.due - workflow.time())
        try:
            await asyncio.wait_for(self._bells[id].wait(), left)
        except TimeoutError:
            place.due = None

    async def _advance(self, id: str, place: Place) -> None:
        leg = Leg(id, place.tracked, place.ended, place.unclaimed)
        place.called, place.ended, place.unclaimed = False, [], False
        above = self._places.get(place.above)
        if above is not None and above.paused:
            self._ring(place.above, above)  # a person has decided, so the time of this delegate goes on
        try:
            self._legs[id] = handle = workflow.start_activity(ADVANCE, leg, **self._options(id, place))
            report: Report = await handle
        except ActivityError as error:
            place.unclaimed = isinstance(error.cause, Timeout) and error.cause.type is TimeoutType.SCHEDULE_TO_START
            self._begin_anew(place, leg)
            place.failures += 1
            await asyncio.sleep(min(LONGEST, PAUSE * 2 ** min(place.failures, 10)))
        except asyncio.CancelledError:
            # A leg that ended in the workflow task in which it was called: temporalio may drop its report.
            if id not in self._interrupted:
                raise
            self._begin_anew(place, leg)
        else:
            self._take(id, place, report)
        finally:
            self._legs.pop(id, None)
            self._interrupted.discard(id)

    def _begin_anew(self, place: Place, leg: Leg) -> None:
        """Nothing is known of what a leg did: the next one looks at everything."""
        place.called, place.tracked, place.queue, place.ended = True, False, "", [*leg.ended, *place.ended]

    def _take(self, id: str, place: Place, report: Report) -> None:
        place.at, place.above, place.due = max(place.at, report.at), report.above, report.due
        place.queue, place.paused, place.tracked, place.failures = report.queue, report.paused, True, 0
        for below in report.below:
            self.call(below)
        place.called = place.called or report.moved or place.wanted > place.at or bool(place.ended)
        if not report.over or place.called:
            return
        del self._places[id]
        if id == self._root:
            self._status = report.status
        if report.above:
            above = self._places.get(report.above) or self._open(report.above, Place())
            above.ended.append(id)
            self._ring(report.above, above)

    def _ring(self, id: str, place: Place) -> None:
        place.called = True
        self._bells[id].set()

    def _options(self, id: str, place: Place) -> dict[str, Any]:
        own = bool(place.queue) and place.queue != self._terms.queue
        return {
            "task_queue": place.queue or self._terms.queue,
            "result_type": Report,
            "start_to_close_timeout": timedelta(seconds=self._terms.leg),
            "schedule_to_start_timeout": timedelta(seconds=self._terms.unclaimed) if own else None,
            "heartbeat_timeout": timedelta(seconds=self._terms.heartbeat),
            "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=5)),
            # A leg that was called to look again goes on, and reports as any other.
            "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            "summary": id,
        }
