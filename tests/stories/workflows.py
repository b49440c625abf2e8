"""Stories of workflows: steps in an order that is known beforehand, whose members may hand off inside."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from changeover import (
    END,
    Agent,
    Approval,
    Approve,
    Command,
    Function,
    Limits,
    Person,
    Reject,
    Respond,
    RunContext,
    Team,
)
from changeover.agent.agent import Member
from changeover.errors import EconomicLimitExceeded, KeyConflict, MisconfiguredError, StepError
from changeover.faults import StepFault
from changeover.messages import Message
from changeover.relay.events import (
    HandoffReturned,
    RollbackBegan,
    RunResumed,
    StepBegan,
    StepFailed,
    StepSkipped,
    StepSpread,
    UserSpoke,
    WorkflowBegan,
)
from changeover.testing import Reply, ScriptedModel, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from changeover.workflows import Retry, Workflow, WorkflowStep
from tests.stories.approvals import always, must_wait, settled
from tests.stories.cancellation import Hold, call_off, first_of
from tests.stories.stage import CONVERSATION, Stage, events, story


def echoes(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Answer with what was asked, in the agent's name."""
    return says(f"{agent}({messages[-1].text})")


def does(stage: Stage, what: str, answer: Any = None) -> Callable[[RunContext], Any]:
    """The function of a step that has this effect, and gives this answer or names the effect."""

    async def act(ctx: RunContext) -> Any:
        stage.effects.append(what)
        return what if answer is None else answer

    return act


def breaks(stage: Stage, times: int) -> Callable[[RunContext], Any]:
    """A function that fails the first attempts at its step. Attempts have conversations of their own, and so keys: what
    is tried again after a crash is no new attempt."""

    async def act(ctx: RunContext) -> str:
        seen = [each for each in stage.effects if each.startswith("tried")]
        tried = f"tried {ctx.idempotency_key}"
        if tried not in seen:
            stage.effects.append(tried)
            seen.append(tried)
        if seen.index(tried) < times:
            raise ConnectionError("the line is dead")
        return f"attempt {seen.index(tried) + 1}"

    return act


def flow(stage: Stage, *steps: WorkflowStep, **options: Any) -> Team:
    """A team of two agents with one workflow of these steps."""
    workflow = Workflow("flow", steps=steps, **{name: options.pop(name) for name in ("output",) if name in options})
    members = [Agent("chef"), Agent("cook"), *options.pop("members", ())]
    return stage.team(members, options.pop("model", None) or ScriptedModel(echoes), workflows=[workflow], **options)


async def begun(team: Team) -> list[str]:
    """The steps of the story's conversation, as they began; those that undo a step have a minus."""
    return [f"{'-' if each.undo else ''}{each.step}" for each in await events(team, StepBegan)]


def steps_of(stage: Stage, plan: str = "plan {inputs.dish}") -> list[WorkflowStep]:
    return [
        WorkflowStep("join", agent="cook", after=["left", "right"], input="{steps.left.text}+{steps.right.text}"),
        WorkflowStep("plan", agent="chef", input=plan),
        WorkflowStep("left", agent="cook", after=["plan"], input="left of {steps.plan.output}"),
        WorkflowStep("right", agent="chef", after=["plan"], input="right of {steps.plan.output}"),
    ]


@story
async def a_diamond_of_agents_meets_again(stage: Stage) -> None:
    team = flow(stage, *steps_of(stage))
    result = await stage.flow(team, "flow", {"dish": "soup"})
    plan = "chef(plan soup)"
    assert result.output == f"cook(cook(left of {plan})+chef(right of {plan}))"
    assert (result.status, result.final_agent, result.usage.requests) == ("completed", "flow", 4)
    assert await begun(team) == ["plan", "left", "right", "join"]
    first = result.handoff_chain[0]
    assert (first.sender, first.receiver, first.tool, first.mode) == ("flow", "chef", "plan", "delegate")
    assert {each.state for each in result.handoff_chain} == {"RETURNED"}
    assert result.ledger.handoffs == 0
    reports = {each.id: each for each in await team.steps(CONVERSATION)}
    assert [*reports] == ["join", "plan", "left", "right"]
    assert {(each.status, each.attempts, each.usage.requests) for each in reports.values()} == {("done", 1, 1)}
    assert (reports["join"].output, reports["join"].after) == (result.output, ("left", "right"))


@story
async def steps_run_at_once_where_nothing_forbids_it(stage: Stage) -> None:
    both = asyncio.Event()

    async def first(ctx: RunContext) -> str:
        await both.wait()
        return "first"

    async def second(ctx: RunContext) -> str:
        both.set()
        return "second"

    if stage.lives > 1:  # what the second one did may be recorded
        both.set()
    team = flow(stage, WorkflowStep("first", function=first), WorkflowStep("second", function=second))
    result = await stage.flow(team, "flow")
    assert result.output == {"first": "first", "second": "second"}


@story
async def a_step_runs_once_for_each_of_fifty_items(stage: Stage) -> None:
    def doubled(ctx: RunContext) -> int:
        number: int = ctx.context["number"]
        stage.effects.append(f"doubled {number}")
        return 2 * number

    team = flow(
        stage,
        WorkflowStep("find", function=does(stage, "found", {"numbers": list(range(50))}), input="find them"),
        WorkflowStep(
            "double",
            function=doubled,
            after=["find"],
            for_each="steps.find.output.numbers",
            context={"number": "item"},
            concurrency=20,
        ),
        output="{sum: sum(steps.double.output), last: steps.double.output[-1]}",
    )
    result = await stage.flow(team, "flow", {"why": "x" * 5_000})
    assert result.output == {"sum": 2_450, "last": 98}
    assert sorted(stage.did) == sorted(["found", *(f"doubled {n}" for n in range(50))])
    [spread] = await events(team, StepSpread)
    assert (spread.step, spread.count, spread.items) == ("double", 50, None)
    # Neither the inputs nor the list are copied for each item.
    sizes = [len(repr(each.event)) for each in await team.history(CONVERSATION) if each.conversation != CONVERSATION]
    assert max(sizes) < 2_000


@story
async def later_steps_get_the_artifacts_of_earlier_ones(stage: Stage) -> None:
    def draws(ctx: RunContext) -> Command:
        return Command(goto=END, update={"output": "drawn", "artifacts": {"plan": "s3://plans/soup"}})

    def reads(ctx: RunContext) -> str:
        return f"read {ctx.artifacts.get('plan')}"

    steps = [
        WorkflowStep("draw", function="artist"),
        WorkflowStep("beside", function=reads),
        WorkflowStep("read", function=reads, after=["draw", "beside"]),
    ]
    team = flow(stage, *steps, members=[Function("artist", draws)], output="steps.read.output")
    result = await stage.flow(team, "flow")
    assert result.output == "read s3://plans/soup"
    assert result.artifacts == {"plan": "s3://plans/soup"}


@story
async def a_step_whose_condition_is_false_is_skipped_and_what_follows_runs(stage: Stage) -> None:
    team = flow(
        stage,
        WorkflowStep("test", function=does(stage, "tested", {"passed": False})),
        WorkflowStep("deploy", agent="cook", after=["test"], when="steps.test.output.passed"),
        WorkflowStep("mend", agent="chef", after=["test"], when="!(steps.test.output.passed)", input="mend it"),
        WorkflowStep("announce", agent="cook", after=["deploy"]),
        WorkflowStep("end", agent="chef", after=["deploy", "mend"], input="{steps.deploy.status}, {steps.mend.text}"),
    )
    result = await stage.flow(team, "flow")
    assert result.output == "chef(skipped, chef(mend it))"
    assert await begun(team) == ["test", "mend", "end"]
    assert {(each.step, each.reason) for each in await events(team, StepSkipped)} == {
        ("deploy", "its condition is not met"),
        ("announce", "all steps before it were skipped"),
    }


@story
async def a_step_that_fails_is_tried_again_after_a_pause(stage: Stage) -> None:
    retry = Retry(2, wait=30, factor=2)
    team = flow(stage, WorkflowStep("call", function=breaks(stage, 2), retry=retry), WorkflowStep("rest", agent="cook"))
    result = await stage.flow(team, "flow")
    assert result.output["call"] == "attempt 3"
    failed = await events(team, StepFailed)
    assert [(each.attempt, each.final) for each in failed] == [(1, False), (2, False)]
    assert "the line is dead" in failed[0].reason
    pauses = [each.not_before for each in await events(team, StepBegan) if each.step == "call"]
    assert pauses[0] == 0
    assert pauses[2] - pauses[1] >= 60
    assert len(stage.did) == 3


@story
async def a_step_that_fails_for_good_has_the_steps_before_it_undone_in_reverse_order(stage: Stage) -> None:
    def undo(ctx: RunContext) -> str:
        what = f"undid {ctx.context['step']} with {ctx.context['output']}"
        stage.effects.append(what)
        return what

    team = flow(
        stage,
        WorkflowStep("book", function=does(stage, "booked", {"id": 7}), on_rollback=undo),
        WorkflowStep("pay", function=does(stage, "paid"), after=["book"], on_rollback="cashier"),
        WorkflowStep("note", agent="cook", after=["pay"]),
        WorkflowStep("send", function=breaks(stage, 99), after=["note"], retry=1, on_rollback=undo),
        WorkflowStep("thank", agent="cook", after=["send"]),
        members=[Function("cashier", undo)],
    )
    error = await stage.flow_error(StepError, team, "flow")
    assert (error.workflow, error.step) == ("flow", "send")
    assert "the line is dead" in error.reason
    done = [each for each in stage.did if not each.startswith("tried")]
    assert done == ["booked", "paid", "undid pay with paid", "undid book with {'id': 7}"]
    assert await begun(team) == ["book", "pay", "note", "send", "send", "-pay", "-book"]
    assert {each.id: each.status for each in await team.steps(CONVERSATION)} == {
        "book": "compensated",
        "pay": "compensated",
        "note": "done",
        "send": "failed",
        "thank": "pending",
    }
    [began] = await events(team, RollbackBegan)
    assert isinstance(began.fault, StepFault)
    assert len([each for each in stage.did if each.startswith("tried")]) == 2


@story
async def a_step_that_cannot_be_undone_does_not_keep_the_others_from_it(stage: Stage) -> None:
    def refuse(ctx: RunContext) -> str:
        raise PermissionError("it is shipped")

    team = flow(
        stage,
        WorkflowStep("book", function=does(stage, "booked"), on_rollback=does(stage, "cancelled")),
        WorkflowStep("ship", function=does(stage, "shipped"), after=["book"], on_rollback=refuse),
        WorkflowStep("bill", function="broken", after=["ship"]),
        members=[Function("broken", refuse)],
    )
    error = await stage.flow_error(StepError, team, "flow")
    assert error.step == "bill"
    assert stage.did == ["booked", "shipped", "cancelled"]
    assert [(each.step, each.undo, each.final) for each in await events(team, StepFailed)] == [
        ("bill", False, True),
        ("ship", True, True),
    ]


@story
async def a_failure_calls_back_the_steps_that_are_under_way(stage: Stage) -> None:
    hold = Hold()

    async def wait(ctx: RunContext) -> str:
        await hold.on()
        return "too late"

    async def fail(ctx: RunContext) -> str:
        if stage.lives == 1:
            await hold.begun.wait()
        raise ConnectionError("gone")

    team = flow(
        stage,
        WorkflowStep("book", function=does(stage, "booked"), on_rollback=does(stage, "cancelled")),
        WorkflowStep("wait", function=wait, after=["book"], on_rollback=does(stage, "never")),
        WorkflowStep("fail", function=fail, after=["book"]),
    )
    error = await stage.flow_error(StepError, team, "flow")
    assert error.step == "fail"
    assert stage.did == ["booked", "cancelled"]
    assert any(each.cancelled for each in await events(team, HandoffReturned))


def approved(stage: Stage) -> Team:
    return flow(
        stage,
        WorkflowStep("test", function=does(stage, "tested", {"version": 3})),
        WorkflowStep(
            "deploy",
            function=does(stage, "deployed"),
            after=["test"],
            input="Deploy version {steps.test.output.version}",
            context={"version": "steps.test.output.version"},
            approval=Approval(summary="Deploy version {version}?", roles=()),
            on_rollback=does(stage, "undeployed"),
        ),
        WorkflowStep("tell", agent="cook", after=["deploy"], input="{steps.deploy.text}"),
    )


@story
async def a_person_approves_a_step_in_the_middle(stage: Stage) -> None:
    team = approved(stage)
    waiting = await stage.flow(team, "flow")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.agent, request.tool, request.receiver) == ("flow", "deploy", "flow.deploy")
        assert request.arguments == {"version": 3}
        assert request.message == "Deploy version 3?\n\nDeploy version 3"
        assert stage.did == ["tested"]
    result = await settled(stage, team, waiting, always(Approve()))
    assert (result.output, stage.did) == ("cook(deployed)", ["tested", "deployed"])


async def rejected(stage: Stage, team: Team, why: str) -> StepError:
    """Reject the first step that needs approval; the error of the run."""
    with suppress(StepError):  # in a later life it may be rejected already
        waiting = await stage.flow(team, "flow", conversation="rejected")
        for request in waiting.requests:
            await team.decide(request, Reject(why), by="ana")
    try:
        await team.run_workflow("flow", conversation="rejected", key="say-1")
    except StepError as error:
        stage.outcomes[1] = error
        return error
    raise AssertionError("a rejected step was taken for done")


@story
async def a_step_that_a_person_rejects_fails_and_one_that_she_answers_is_done(stage: Stage) -> None:
    team = approved(stage)
    error = await rejected(stage, team, "not on Friday")
    assert (error.step, error.reason) == ("deploy", "not approved by ana: not on Friday")
    waiting = await stage.flow(team, "flow", conversation="answered")
    must_wait(stage, waiting)
    result = await settled(stage, team, waiting, always(Respond("deployed by hand")))
    assert result.output == "cook(deployed by hand)"
    assert "deployed" not in stage.did


@story
async def the_agent_of_a_step_hands_off_inside_it(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "chef" and "cook it" in messages[-1].text:
            return hands_off("cook", "too hot for me")
        return echoes(agent, messages, tools)

    team = flow(
        stage,
        WorkflowStep("coordinate", agent="chef", input="cook it"),
        WorkflowStep("serve", agent="chef", after=["coordinate"], input="serve {steps.coordinate.output}"),
        model=ScriptedModel(play),
    )
    result = await stage.flow(team, "flow")
    assert result.output.startswith("chef(serve cook(")
    assert sorted((h.sender, h.receiver, h.mode) for h in result.handoff_chain) == [
        ("chef", "cook", "transfer"),
        ("flow", "chef", "delegate"),
        ("flow", "chef", "delegate"),
    ]
    assert result.ledger.handoffs == 1


@story
async def a_cancelled_workflow_goes_on_where_it_was(stage: Stage) -> None:
    hold = Hold()

    async def wait(ctx: RunContext) -> str:
        if not await events(team, RunResumed):
            await hold.on()
        stage.effects.append("waited")
        return "waited"

    team = flow(
        stage,
        WorkflowStep("book", function=does(stage, "booked"), on_rollback=does(stage, "undone")),
        WorkflowStep("wait", function=wait, after=["book"]),
        WorkflowStep("tell", agent="cook", after=["wait"], input="{steps.wait.text}"),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stage.flow(team, "flow"))
        await first_of(running, hold.begun.wait)
        await call_off(stage, team, CONVERSATION)
    if stage.lives == 1:
        assert running.result().status == "cancelled"
        assert stage.did == ["booked"]
    result = await team.resume(CONVERSATION)
    assert (result.output, result.status) == ("cook(waited)", "completed")
    assert stage.did == ["booked", "waited"]
    stage.outcomes[1] = result


@story
async def a_failed_workflow_resumes_from_the_failed_step_and_does_again_what_was_undone(stage: Stage) -> None:
    async def send(ctx: RunContext) -> str:
        if not await events(team, RunResumed):
            raise ConnectionError("the line is dead")
        return "sent"

    team = flow(
        stage,
        WorkflowStep("plan", function=does(stage, "planned")),
        WorkflowStep("book", function=does(stage, "booked"), after=["plan"], on_rollback=does(stage, "undone")),
        WorkflowStep("send", function=send, after=["book"]),
    )
    if stage.lives == 1 or not await _resumed(team):
        await stage.flow_error(StepError, team, "flow")
        assert stage.did == ["planned", "booked", "undone"]
    result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert result.output == "sent"
    assert await begun(team) == ["plan", "book", "send", "-book", "book", "send"]


async def _resumed(team: Team) -> bool:
    entries = await team.log.read(CONVERSATION)
    return any(isinstance(event, RunResumed) for entry in entries for event in entry.events)


@story
async def one_step_is_carried_out_again_with_all_that_follow_it(stage: Stage) -> None:
    async def count(ctx: RunContext) -> int:
        return 1 + len(await events(team, RunResumed))

    team = flow(
        stage,
        WorkflowStep("first", function=does(stage, "first")),
        WorkflowStep("count", function=count),
        WorkflowStep("tell", agent="cook", after=["first", "count"], input="{steps.first.text} {steps.count.text}"),
    )
    if not await _resumed(team):
        assert (await stage.flow(team, "flow")).output == "cook(first 1)"
    if stage.lives == 1:
        with pytest.raises(MisconfiguredError, match="has no step 'gone'; it has: first, count, tell"):
            await team.retry_step(CONVERSATION, "gone")
    retry = not await _resumed(team)
    result = await (team.retry_step(CONVERSATION, "count") if retry else team.resume(CONVERSATION))
    stage.outcomes[1] = result
    assert result.output == "cook(first 2)"
    assert sorted(await begun(team)) == ["count", "count", "first", "tell", "tell"]
    assert stage.did == ["first"]


@story
async def the_same_key_gives_the_same_run(stage: Stage) -> None:
    team = flow(stage, WorkflowStep("pay", function=does(stage, "paid"), input="{inputs.sum}"))
    first = await team.start("flow", {"sum": 5}, key="order-1")
    again = await team.start("flow", {"sum": 5}, key="order-1")
    assert first == again
    result = await team.run_workflow("flow", {"sum": 5}, key="order-1")
    assert (result.output, result.conversation_id, result.run_id) == ("paid", first.conversation_id, first.run_id)
    assert stage.did == ["paid"]
    with pytest.raises(KeyConflict):
        await team.run_workflow("flow", {"sum": 6}, key="order-1")


@story
async def a_workflow_keeps_the_definition_with_which_it_began(stage: Stage) -> None:
    ask = WorkflowStep("ask", agent="ana", input="What is it called?")
    tell = WorkflowStep("tell", agent="cook", after=["ask"], input="first {steps.ask.text}")
    members: list[Member] = [Agent("chef"), Agent("cook"), Person("ana")]
    before = Workflow("flow", steps=[ask, tell])
    after = Workflow("flow", steps=[ask, WorkflowStep("other", agent="chef", after=["ask"], input="second")])
    old = stage.team(members, ScriptedModel(echoes), workflows=[before])
    waiting = await stage.flow(old, "flow")
    must_wait(stage, waiting)
    new = Team(members, model=ScriptedModel(echoes), store=old.log, clock=old.clock, workflows=[after])
    result = await settled(stage, new, waiting, always(Respond("soup")))
    assert result.output == "cook(first soup)"
    [began] = await events(new, WorkflowBegan)
    assert [step.id for step in began.plan.steps] == ["ask", "tell"]


@story
async def functions_judge_and_compute_in_code(stage: Stage) -> None:
    team = flow(
        stage,
        WorkflowStep("find", function=does(stage, "found", {"ready": True, "names": ["a", "b"]})),
        WorkflowStep(
            "each",
            agent="cook",
            after=["find"],
            when=lambda run: run["steps"]["find"]["output"]["ready"],
            for_each=lambda run: [name.upper() for name in run["steps"]["find"]["output"]["names"]],
            input=lambda run: f"{run['index']}: {run['item']} of {run['inputs']}",
        ),
        output=lambda run: run["steps"]["each"]["output"],
    )
    result = await stage.flow(team, "flow", "all of them")
    assert result.output == ["cook(0: A of all of them)", "cook(1: B of all of them)"]
    [spread] = await events(team, StepSpread)
    assert spread.items == ["A", "B"]
    assert (await events(team, UserSpoke))[0].text == "all of them"


@story
async def a_step_whose_expression_finds_nothing_usable_fails_with_the_reason(stage: Stage) -> None:
    team = flow(
        stage,
        WorkflowStep("find", function=does(stage, "found", {"names": 3}), on_rollback=does(stage, "undone")),
        WorkflowStep("each", agent="cook", after=["find"], for_each="steps.find.output.names"),
    )
    error = await stage.flow_error(StepError, team, "flow")
    assert (error.step, error.reason) == ("each", "its for_each gave a int, not a list")
    assert stage.did == ["found", "undone"]


@story
async def the_limits_of_a_run_hold_for_all_steps_together(stage: Stage) -> None:
    team = flow(
        stage,
        WorkflowStep("book", function=does(stage, "booked"), on_rollback=does(stage, "undone")),
        WorkflowStep("one", agent="cook", after=["book"]),
        WorkflowStep("two", agent="cook", after=["one"]),
        WorkflowStep("three", agent="cook", after=["two"], input="go"),
    )
    error = await stage.flow_error(EconomicLimitExceeded, team, "flow", limits=Limits(max_turns=2), conversation="two")
    assert (error.limit_name, error.limit) == ("max_turns", 2)
    assert stage.did == ["booked", "undone"]
    result = await stage.flow(team, "flow", limits=Limits(max_turns=3, max_handoffs=0), conversation="three")
    assert result.output == "cook(go)"


@story
async def a_step_that_takes_too_long_is_called_back_and_tried_again(stage: Stage) -> None:
    async def slow(ctx: RunContext) -> str:
        if len(await events(team, StepBegan)) == 1:
            await team.clock.sleep_until(team.clock.now() + 10)
            await asyncio.Event().wait()
        return "in time"

    team = flow(stage, WorkflowStep("slow", function=slow, timeout=5, retry=1))
    result = await stage.flow(team, "flow")
    assert result.output == "in time"
    [failed] = await events(team, StepFailed)
    assert (failed.reason, failed.final) == ("it was not done in time", False)


@story
async def a_model_that_fails_fails_the_step_which_is_tried_again(stage: Stage) -> None:
    turns = iter([fails("down", retryable=False)])

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Any:
        return next(turns, says("it works"))

    team = flow(stage, WorkflowStep("ask", agent="cook", input="go", retry=2), model=ScriptedModel(play))
    result = await stage.flow(team, "flow")
    assert result.output == "it works"
    assert len(await begun(team)) in ((2,) if stage.lives == 1 else (1, 2, 3))
