"""Conductor: the methods of a team that start workflows, repeat steps, and report the progress of steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from changeover.agent.roster import Roster
from changeover.control import Overseer
from changeover.errors import ConversationNotFound, MisconfiguredError
from changeover.facts import RunResult, StepReport, WorkflowRun
from changeover.ids import run_id
from changeover.inputs import WorkflowOptions, check_id, check_texts, started, with_workflow_options
from changeover.relay.history import ActiveAgents
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.state import State
from changeover.relay.stream import Recorded, StreamItem
from changeover.workflows.workflow import Workflow

Inputs = Mapping[str, Any] | str | None


class Conductor(Overseer):
    """Starts the workflows of a team. `resume`, `follow`, `cancel`, `approvals` and `history` take the conversation id
    of the run that `start` returns, as that of every other run."""

    @property
    @abstractmethod
    def roster(self) -> Roster:
        """The members of the team, and its workflows."""

    @with_workflow_options
    async def start(
        self, workflow: Workflow | str, inputs: Inputs = None, **options: Unpack[WorkflowOptions]
    ) -> WorkflowRun:
        """Start a `workflow` of the team, a Workflow or its id, and return at once. `resume`, `follow` and `cancel`
        take the `conversation_id` of the WorkflowRun that this returns.

        - `inputs`: values by name that JSON can hold, or a text; the steps read them as `inputs`.
        - `key`: the same key gives the same run; with other inputs it raises KeyConflict.
        - `conversation`, `context`, `limits`, `user`, `correlation_id` and `files` are as in `run`, for all steps.

        Raises MisconfiguredError before anything is recorded.
        """
        say = await self._say(workflow, inputs, options)
        ref = await self.engine.put(say)
        id = run_id(ref.conversation, ref.run)
        return WorkflowRun(workflow=say.spoken.agent, conversation_id=ref.conversation, run_id=id)

    @with_workflow_options
    async def run_workflow(
        self, workflow: Workflow | str, inputs: Inputs = None, **options: Unpack[WorkflowOptions]
    ) -> RunResult[Any]:
        """`start` a `workflow` and wait for its result; `inputs`, `key`, `conversation`, `context`, `limits`, `user`,
        `correlation_id` and `files` are as there.
        `result.output` is the output of the last step, or what the workflow declares as its output.

        Raises StepError if a step fails for good, after the steps that were done are compensated; `resume` tries again
        from there. If a person or a worker has to act first, the result has the status "waiting".
        """
        return await self.engine.result(await self._say(workflow, inputs, options))

    @with_workflow_options
    async def stream_workflow(
        self, workflow: Workflow | str, inputs: Inputs = None, **options: Unpack[WorkflowOptions]
    ) -> AsyncGenerator[StreamItem, None]:
        """`run_workflow` as a stream: recorded events, pieces of text, and last the result. Closing it cancels nothing.
        `workflow`, `inputs`, `key`, `conversation`, `context`, `limits`, `user`, `correlation_id`, `files` and errors
        are as there."""
        say = await self._say(workflow, inputs, options)
        async with aclosing(read_along(self.engine.stream(say))) as items:
            async for item in items:
                yield item

    async def retry_step(self, conversation: str, step: str) -> RunResult[Any]:
        """Repeat one `step` of the workflow that ended last in a `conversation`, and all steps after it, and wait for
        the result; the steps before it keep their outputs.

        Raises Busy while a run is under way there, ConversationNotFound, and MisconfiguredError if there is no such
        step.
        """
        check_texts(step=step)
        check_id(conversation=conversation, step=step)
        return await self.engine.result(Resume(conversation, step))

    async def steps(self, conversation: str) -> list[StepReport]:
        """The progress of each step of the workflow that runs in a `conversation`, or ran there last, in the order of
        declaration. Raises ConversationNotFound, and MisconfiguredError if that run is no workflow."""
        check_id(conversation=conversation)
        if not (entries := await self.log.read(conversation)):
            raise ConversationNotFound(conversation)
        state = State(conversation).fold(entries)
        run = state.run or (state.last.run if state.last else None)
        if run is None or run.flow is None:
            raise MisconfiguredError(f"the last run of {conversation!r} is no workflow, so it has no steps")
        return run.flow.report()

    async def _say(self, workflow: Workflow | str, inputs: Inputs, options: WorkflowOptions) -> Say:
        """The input that starts a workflow of the team."""
        id = workflow.id if isinstance(workflow, Workflow) else workflow
        check_id(workflow=id)
        if id not in self.roster.workflows:
            await self.engine.world()  # the store may have declared it since
        if (found := self.roster.workflows.get(id)) is None:
            known = ", ".join(sorted(self.roster.workflows)) or "none"
            raise MisconfiguredError(f"no workflow is called {id!r}; this team has: {known}")
        return started(found, inputs, options)


async def read_along(stream: AsyncGenerator[StreamItem, None], after: int = 0) -> AsyncGenerator[StreamItem, None]:
    """The items of an engine's stream, and one for each change of the active agent; without events up to `after`."""
    active = ActiveAgents()
    async with aclosing(stream) as items:
        async for item in items:
            if not isinstance(item, Recorded):
                yield item
                continue
            changed = active.change(item)
            if item.seq > after:
                yield item
                if changed is not None:
                    yield changed
