"""Callables that users declare: asked whatever they are like, and refused with the team if they cannot be asked."""

import enum
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, RootModel

from changeover import Agent, Approval, Function, Team, delegate, handoff, tool
from changeover.errors import MisconfiguredError
from changeover.guards import Rule
from changeover.protocol import Expects, Rejected
from changeover.testing import ScriptedModel, calls, hands_off, says

SCRIPT = {"triage": [hands_off("billing", "x"), says("Alone.")], "billing": [says("Refunded.")]}


def desk(triage: dict[str, Any] | None = None, billing: dict[str, Any] | None = None, **options: Any) -> Team:
    members = [Agent("triage", **(triage or {})), Agent("billing", **(billing or {}))]
    return Team(members, model=ScriptedModel(SCRIPT), **options)


class Falsy:
    """A callable that counts as false, as an empty registry of plugins would."""

    def __init__(self, answer: Any) -> None:
        self._answer, self.asked = answer, 0

    def __call__(self, *_: Any) -> Any:
        self.asked += 1
        return self._answer

    def __len__(self) -> int:
        return 0


async def test_a_falsy_accepts_is_asked():
    accepts = Falsy(Rejected("closed"))
    result = await desk(billing={"accepts": accepts}).run("go")
    assert (accepts.asked, result.final_agent) == (1, "triage")


FALSY: dict[str, tuple[Any, Callable[[Falsy], Team]]] = {
    "when": (True, lambda own: desk({"handoffs": [handoff("billing", when=own)]})),
    "instructions": ("Be kind.", lambda own: desk({"instructions": own})),
    "strategy of a handoff": ("All.", lambda own: desk({"handoffs": [handoff("billing", strategy=own)]})),
    "strategy of an agent": ("All.", lambda own: desk(billing={"strategy": own})),
    "strategy of a team": ("All.", lambda own: desk(strategy=own)),
    "approval": (False, lambda own: desk({"handoffs": [handoff("billing", approval=own)]})),
    "condition of an approval": (
        False,
        lambda own: desk({"handoffs": [handoff("billing", approval=Approval(when=own))]}),
    ),
    "rule": (False, lambda own: desk(rules=[Rule("x", if_=own, goto="billing")])),
    "hook": (None, lambda own: desk(hooks={"run_completed": own})),
    "expects": (True, lambda own: desk({"handoffs": [handoff("billing", expects=own_criterion(own))]})),
    "briefing": ("Do it.", lambda own: desk({"handoffs": [delegate("billing")]}, {"briefing": own})),
}


def own_criterion(own: Falsy) -> Any:
    return Expects(criteria=[own])


@pytest.mark.parametrize("where", FALSY)
async def test_a_callable_that_counts_as_false_is_asked(where: str):
    answer, build = FALSY[where]
    own = Falsy(answer)
    team = build(own)
    script = {"triage": [calls(("delegate_to_billing", {"task": "x"})), says("Done.")], "billing": [says("Refunded.")]}
    if where == "briefing":
        team = Team(
            [Agent("triage", handoffs=[delegate("billing")]), Agent("billing", briefing=own)],
            model=ScriptedModel(script),
        )
    await team.run("go")
    assert own.asked >= 1


async def late(ctx: Any) -> bool:
    """A condition that has to be awaited."""
    return False


class Late:
    """The same as an object."""

    async def __call__(self, ctx: Any) -> bool:
        return False


ASYNC = {"a function": late, "a partial": partial(late), "an object": Late()}
CONDITIONS: dict[str, Callable[[Any], Team]] = {
    "when of a handoff": lambda own: desk({"handoffs": [handoff("billing", when=own)]}),
    "when of a tool": lambda own: desk({"tools": [tool(when=own, name="look")(str)]}),
    "if_ of a rule": lambda own: desk(rules=[Rule("x", if_=own, goto="billing")]),
}


@pytest.mark.parametrize("kind", ASYNC)
@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
async def test_a_condition_that_has_to_be_awaited_is_refused_when_the_team_is_built(where: str, kind: str):
    with pytest.raises(MisconfiguredError, match="plain function"):
        CONDITIONS[where](ASYNC[kind])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
async def test_a_condition_that_gives_a_coroutine_does_not_hold():
    hidden: Any = lambda ctx: late(ctx) or None  # noqa: E731
    result = await desk({"handoffs": [handoff("billing", when=hidden)]}).run("go")
    assert result.final_agent == "triage"


def nothing() -> Any:
    """Takes no argument where one is given."""
    return True


def three(one: Any, two: Any, more: Any) -> Any:
    """Takes three arguments where one is given."""
    return True


ARITY: dict[str, Callable[[Any], Team]] = {
    "accepts": lambda own: desk(billing={"accepts": own}),
    "instructions": lambda own: desk({"instructions": own}),
    "when": lambda own: desk({"handoffs": [handoff("billing", when=own)]}),
    "rule": lambda own: desk(rules=[Rule("x", if_=own, goto="billing")]),
    "function": lambda own: Team([Function("fn", own)]),
    "hook": lambda own: desk(hooks={"run_completed": own}),
    "strategy": lambda own: desk({"handoffs": [handoff("billing", strategy=own)]}),
    "briefing": lambda own: desk(billing={"briefing": own}),
    "on_rollback": lambda own: desk({"handoffs": [handoff("billing", on_rollback=own)]}),
    "on_rollback of a delegate": lambda own: desk({"handoffs": [delegate("billing", on_rollback=own)]}),
    "on_accepted": lambda own: desk({"handoffs": [handoff("billing", on_accepted=own)]}),
    "on_accepted of a delegate": lambda own: desk({"handoffs": [delegate("billing", on_accepted=own)]}),
    "when of a delegate": lambda own: desk({"handoffs": [delegate("billing", when=own)]}),
    "criterion": lambda own: desk({"handoffs": [handoff("billing", expects=own_criterion(own))]}),
    "ask": lambda own: desk(ask=own),
}


@pytest.mark.parametrize("fn", [nothing, three], ids=["no argument", "three arguments"])
@pytest.mark.parametrize("where", ARITY)
def test_a_callable_of_the_wrong_arity_is_a_fault_of_the_team(where: str, fn: Any):
    with pytest.raises(MisconfiguredError, match=r"takes|argument"):
        ARITY[where](fn)


@pytest.mark.parametrize("where", ARITY)
def test_a_callable_whose_arity_nobody_knows_is_let_through(where: str):
    ARITY[where](lambda *given, **named: True)


class Colour(enum.Enum):
    RED = "red"


class Visit(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    colour: Colour


async def test_a_strict_pydantic_model_is_filled_from_json():
    script = {
        "triage": [calls(("handoff_to_billing", {"day": "2026-01-02", "colour": "red"}))],
        "billing": [says("Ok.")],
    }
    members = [Agent("triage", handoffs=[handoff("billing", variables=Visit)]), Agent("billing")]
    result = await Team(members, model=ScriptedModel(script)).run("go")
    assert (result.final_agent, result.variables) == ("billing", {"day": "2026-01-02", "colour": "red"})


@pytest.mark.parametrize("kind", [list[int], int], ids=["list", "number"])
def test_a_root_model_that_is_no_object_is_refused_when_the_team_is_built(kind: Any):
    with pytest.raises(MisconfiguredError, match="object"):
        desk({"handoffs": [handoff("billing", variables=RootModel[kind])]})


async def test_a_root_model_of_an_object_is_fine():
    desk({"handoffs": [handoff("billing", variables=RootModel[Visit])]})


def without_tools(seen: list[int]) -> Any:
    """A model of another library whose profile says that it calls no tools."""
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.profiles import ModelProfile

    def answer(messages: Any, info: Any) -> ModelResponse:
        seen.append(len(info.function_tools))
        return ModelResponse(parts=[TextPart("Hello.")])

    return FunctionModel(answer, profile=ModelProfile(supports_tools=False))


@tool
def look() -> str:
    """Look."""
    return "nothing"


async def test_a_model_whose_profile_has_no_tools_is_offered_none_and_the_team_says_so(
    caplog: pytest.LogCaptureFixture,
):
    seen: list[int] = []
    team = Team([Agent("triage", tools=[look], model=without_tools(seen)), Agent("billing", model=without_tools(seen))])
    assert "agent 'triage': its model calls no tools" in caplog.text
    assert ((await team.run("hello")).output, seen) == ("Hello.", [0])
