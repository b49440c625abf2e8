"""Sheet: the rows that one entry adds to the read models, computed beside the fold."""

from __future__ import annotations

from typing import Any

from changeover.facts import State as HandoffState
from changeover.guards.deadlock import DEADLOCK
from changeover.ids import handoff_id, task_id
from changeover.messages import with_labels
from changeover.relay.events import Event, HandoffOffered, RunStarted, Unreadable, UserSpoke
from changeover.relay.projection.changes import Change, Reading
from changeover.relay.projection.rows import Kind, Message, Rows, as_json
from changeover.relay.state import State

WITHDRAWN = "withdrawn_approvals"


class Sheet(Reading):
    """Collects the rows of one entry. Several changes to one row become one write."""

    __slots__ = (
        "_first",
        "_new",
        "_output",
        "_parent",
        "_touched",
        "_variables",
        "heard",
        "id",
        "offers",
        "rows",
        "start",
        "working",
    )

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.id, self.start = state.id, state.position
        self.rows = self._first = Rows()
        self.heard: dict[int, UserSpoke] = {}
        """Inputs of this entry that no run has taken up yet, by position."""
        self.offers: dict[str, tuple[HandoffOffered, str]] = {}
        """Offers of this entry without an answer, by call, each with its tool."""
        self.working, self._variables = state.work, state.variables
        """The task to which the rows belong, and its context as the tables have it."""
        self._touched = self._new = False
        self._output: str | None = None
        self._parent: str | None = None

    def finish(self) -> Rows:
        """Add what is left, and return all rows."""
        for position, spoken in self.heard.items():
            self.quote(spoken, position, None)
        self._write_offers()
        self._write_task(self.state.variables)
        return self._first

    @property
    def at(self) -> float:
        return self.state.at

    @property
    def agent(self) -> str | None:
        """The agent whose task it is."""
        return self.state.work.agent if self.state.work.position else None

    @property
    def current_task(self) -> str | None:
        position = self.state.work.position
        return task_id(self.id, position) if position else None

    def task(self, position: int) -> str:
        """The task of this conversation that began here."""
        return task_id(self.id, position)

    def is_at(self, run: int) -> bool:
        """True if the current task belongs to this run; 0 is any."""
        return run == 0 or (self.state.run is not None and self.state.run.id == run)

    def separate_runs(self) -> None:
        """Begin a run: write the withdrawal of the last run's approvals before new approvals are added."""
        self._write_offers()
        if WITHDRAWN in self.rows:
            self.rows = self.rows.later()

    def touch(self, output: str | None = None) -> None:
        """Note that this event changes the status of the current task, which may end with an output."""
        self._touched, self._output = True, output

    def begin(self) -> None:
        """Note that the agent has begun to work on the task."""
        if self.state.work.status == "pending":
            self._touched = True

    def refuse(self, receiver: str, reason: str) -> None:
        """Add the refusal of a handoff from the agent to this receiver."""
        kind = "deadlock" if reason.startswith(DEADLOCK) else "other"
        row = (self.id, self.state.position, self.at, self.agent or "", receiver, kind, reason)
        self.rows["refusals"].append(row)

    def reach(self, limit: str) -> None:
        """Add a limit that the run has reached; several events may say so."""
        self.rows["limits"].append((self.id, self.state.position, self.at, self.agent or "", limit))

    def end_steps(self) -> None:
        """At the end of a workflow's run, add the figures of the steps that began or were skipped."""
        run = self.state.run
        if run is None or run.flow is None:
            return
        for each in run.flow.report():
            if each.status != "pending":
                self.rows.add_step((self.id, run.id), run.flow.plan.id, each, self.at)

    def note(self, kind: Kind, content: str) -> None:
        """Add a message about the current task itself."""
        self.say((kind, content, self.current_task, self.agent, None))

    def say(self, message: Message, part: int = 0, position: int | None = None) -> None:
        """Add a message, of the event at hand or of an earlier one of this entry."""
        if position is None:
            position = self.state.position
        kind, content, task, agent, call = message
        # In the place of the seq: the offset from the entry's first event, whose seq the log assigns.
        behind = position - self.start
        self.rows["messages"].append((self.id, position, part, behind, kind, task, agent, call, self.at, content))

    def quote(self, spoken: UserSpoke, position: int, task: str | None) -> None:
        """Add the message of a user, or of the agent that gave the task."""
        speaker = spoken.given.sender if spoken.given else None
        text = with_labels(spoken.text, spoken.files) if spoken.files else spoken.text
        self.say(("user_message", text, task, speaker, None), position=position)

    def write_handoff(self, change: Change) -> None:
        """Add what a change means for the row of its handoff."""
        id = handoff_id(self.id, change.call)
        if change.state is HandoffState.PENDING and change.offer is not None:
            self.offers[change.call] = (change.offer, change.tool)
        elif change.state is not HandoffState.WORKING:
            if made := self.offers.pop(change.call, None):
                self._add_handoff(*made, None)
            self.rows.end_handoff(change.state, self.at, change.reason or None, id)
        elif change.resumed:
            self.rows.end_handoff(change.state, None, None, id)
        elif change.task is not None and (made := self.offers.pop(change.call, None)):
            self._add_handoff(*made, change.task)
        else:
            self.rows["accepted_handoffs"].append((change.state, change.task, self.at, id))

    def _add_handoff(self, offer: HandoffOffered, tool: str, task: str | None) -> None:
        self.rows.add_handoff((self.id, self.working.run, self.at), offer, tool, task)

    def _write_offers(self) -> None:
        """Add the offers that have no answer."""
        for offer, tool in self.offers.values():
            self._add_handoff(offer, tool, None)
        self.offers.clear()

    def begin_task(self, event: Event | Unreadable, variables: dict[str, Any]) -> None:
        """Write the task before the one that this event began; `variables` are its context."""
        self._write_task(variables)
        before, self.working, self._variables = self.working, self.state.work, self.state.variables
        self._new, self._parent = True, self.task(before.position)
        if isinstance(event, RunStarted):
            run = self.state.run
            given = run.spoken.given if run else None
            self._parent = task_id(self.state.parent, given.task) if given else None

    def _write_task(self, variables: dict[str, Any]) -> None:
        """Add the outcome of the current task, and the task itself if it is new."""
        task, at = self.working, self.at
        if self._new:
            self.rows.add_task((self.id, self.state.root, self._parent, at), task, as_json(variables), self._output)
        else:
            if self._touched:
                self.rows["moved_tasks"].append((task.status, self._output, at, self.id, task.position))
            if variables is not self._variables and variables != self._variables:
                self.rows["widened_tasks"].append((as_json(variables), self.id, task.position))
        self._touched, self._new, self._output = False, False, None
