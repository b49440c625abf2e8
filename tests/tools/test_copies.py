"""What user code is given of a run is its own: whatever it does with it changes neither the run nor the log."""

import copy
import dataclasses
import json
import operator
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from changeover import Agent, Approval, Command, Function, Member, RunContext, Team, Variable, handoff, tool
from changeover.guards import Allow, Rule
from changeover.protocol import Handover
from changeover.relay.ports.world import Request
from changeover.testing import Assistant, Reply, ScriptedModel, calls, hands_off, says
from changeover.tools import HttpTool, McpServer, Skill, SqlFunction
from tests.public_api import recorded

BEFORE = {"plan": "gold", "seen": ["a"]}


def spoil(variables: Any) -> None:
    """Change all that can be changed; what is read-only may say so."""
    with suppress(TypeError, AttributeError):
        variables["seen"].append("spoiled")
    with suppress(TypeError, AttributeError):
        variables["plan"] = "spoiled"


def spoils(answer: Any) -> Callable[..., Any]:
    """A function of the run's context that spoils what it is given."""

    def look(ctx: RunContext, *_: Any) -> Any:
        spoil(ctx.context)
        return answer

    return look


@tool
def spoiling(ctx: RunContext) -> str:
    """Spoil what the tool is given."""
    spoil(ctx.context)
    return "done"


@tool(approval=Approval(when=spoils(False)))
def asking() -> str:
    """Spoil what the approval's condition is given."""
    return "done"


def sums_up(handover: Handover) -> str:
    spoil(handover.variables)
    return "All of it."


PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool": ({"tools": [spoiling], "handoffs": ()}, {}),
    "approval": ({"tools": [asking], "handoffs": ()}, {}),
    "when": ({"handoffs": [handoff("billing", when=spoils(True))]}, {}),
    "rule": ({"handoffs": ()}, {"rules": [Rule("never", if_=spoils(False), goto="billing")]}),
    "instructions": ({"instructions": spoils("Be kind."), "handoffs": ()}, {}),
    "strategy": ({"handoffs": [handoff("billing", strategy=sums_up)]}, {}),
}
TURNS = {
    "tool": [calls(("spoiling", {})), says("Done.")],
    "approval": [calls(("asking", {})), says("Done.")],
    "when": [hands_off("billing", "look")],
    "strategy": [hands_off("billing", "look")],
}


def team_with(place: str, store: str | None) -> Team:
    """A team in which one kind of user code spoils what it is given."""
    agent, options = PLACES[place]
    script = {
        "triage": [*TURNS.get(place, [says("Done.")]), says("Again.")],
        "billing": [says("Done."), says("Again.")],
    }
    members = [Agent("triage", **agent), Agent("billing", handoffs=())]
    return Team(members, model=ScriptedModel(script), store=store, **options)


@pytest.mark.parametrize("place", PLACES)
async def test_what_user_code_does_with_the_variables_changes_nothing_in_the_run(place: str):
    result = await team_with(place, None).run("go", context=BEFORE)
    assert result.variables == BEFORE


@pytest.mark.parametrize("place", ["tool", "strategy"])
async def test_the_variables_are_the_same_after_a_restart(place: str, shared_store: str):
    async with team_with(place, shared_store) as team:
        before = dict((await team.run("go", conversation="story", context=BEFORE)).variables)
    async with team_with(place, shared_store) as team:
        after = await team.run("again", conversation="story")
    assert after.variables == before == BEFORE


async def test_a_function_member_gets_a_copy():
    def looks(ctx: RunContext) -> Command | str:
        spoil(ctx.context)
        return "done"

    result = await Team([Function("look", looks)]).run("go", context=BEFORE)
    assert result.variables == BEFORE


async def test_what_a_caller_does_with_a_result_changes_nothing_in_the_run(any_store: str | None):
    async with Team(
        [Agent("desk")], model=ScriptedModel({"desk": [says("One."), says("Two.")]}), store=any_store
    ) as team:
        spoil((await team.run("go", conversation="story", context=BEFORE)).variables)
        assert (await team.run("again", conversation="story")).variables == BEFORE


@pytest.mark.parametrize("part", ["artifacts", "workflow_state"])
async def test_artifacts_and_workflow_state_of_a_tool_are_not_the_runs_own(part: str):
    def spoils_them(ctx: RunContext) -> str:
        """Spoil what the tool is given."""
        with suppress(TypeError, AttributeError):
            ctx.workflow_state["done"].append("spoiled")
        with suppress(TypeError, AttributeError):
            getattr(ctx, part)["list"] = "spoiled"
        return "done"

    def makes(ctx: RunContext) -> Command:
        return Command(goto="desk", update={"artifacts": {"list": "file:1"}, "workflow_state": {"done": ["a"]}})

    script = {"desk": [calls(("spoils_them", {})), says("Done.")]}
    members: list[Member] = [Function("first", makes), Agent("desk", tools=[spoils_them], handoffs=())]
    result = await Team(members, model=ScriptedModel(script)).run("go")
    assert (result.artifacts, result.workflow_state) == ({"list": "file:1"}, {"done": ["a"]})


async def test_a_strategy_cannot_empty_the_arguments_that_were_recorded():
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    def empties(handover: Handover) -> str:
        for message in handover.messages:
            for call in getattr(message, "calls", ()):
                with suppress(TypeError, AttributeError):
                    call.args.clear()
        return "All of it."

    script = {"triage": [calls(("look", {"page": 7})), hands_off("billing", "x")], "billing": [says("Done.")]}
    members = [Agent("triage", tools=[look], handoffs=[handoff("billing", strategy=empties)]), Agent("billing")]
    model = ScriptedModel(script)
    async with Team(members, model=model) as team:
        await team.run("go", conversation="story")
        replies = await recorded(team, "ModelReplied")
    assert replies[0].calls[0].args == {"page": 7}
    assert model.requests[1].messages[1].calls[0].args == {"page": 7}  # type: ignore[union-attr]


async def test_a_callable_that_accepts_cannot_change_the_package_of_the_run():
    def accepts(package: Any) -> bool:
        spoil(package.context.variables)
        return True

    script = {"triage": [hands_off("billing", "x")], "billing": [says("Done.")]}
    members = [Agent("triage"), Agent("billing", accepts=accepts)]
    result = await Team(members, model=ScriptedModel(script)).run("go", context=BEFORE)
    assert result.variables == BEFORE


async def test_a_guard_cannot_change_what_it_judges():
    class Spoils:
        def check(self, offer: Any, ledger: Any, facts: Any) -> Allow:
            for judged in (offer, *facts.trail):
                spoil(judged.variables)
            return Allow()

    script = {"triage": [hands_off("billing", "x")], "billing": [hands_off("triage", "y"), says("Done.")]}
    script["triage"] += [hands_off("billing", "z")]
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(script), guards=[Spoils()])
    assert (await team.run("go", context=BEFORE)).variables == BEFORE


async def test_the_chain_of_a_result_is_the_callers_own():
    script = {"triage": [hands_off("billing", seen=["a"])], "billing": [says("Done."), says("Again.")]}
    ways = [handoff("billing", variables=[Variable("seen", "array")])]
    async with Team([Agent("triage", handoffs=ways), Agent("billing")], model=ScriptedModel(script)) as team:
        result = await team.run("go", conversation="story")
        spoil(result.handoff_chain[0].variables)
        assert result.handed is not None
        result.handed.path.clear()
        again = await team.run("again", conversation="story")
    assert (again.variables, again.context["_handoff_chain"]) == ({"seen": ["a"]}, ["triage", "billing"])


async def test_an_approvals_condition_cannot_change_the_arguments():
    def empties(ctx: RunContext, arguments: dict[str, Any]) -> bool:
        arguments["pages"].clear()
        return False

    @tool(approval=Approval(when=empties))
    def read(pages: list[int]) -> str:
        """Read pages."""
        return f"read {pages}"

    script = {"desk": [calls(("read", {"pages": [7]})), says("Done.")]}
    async with Team([Agent("desk", tools=[read])], model=ScriptedModel(script)) as team:
        await team.run("go", conversation="story")
        finished = await recorded(team, "ToolFinished")
    assert finished[0].text == "read [7]"


async def test_a_model_cannot_change_what_it_is_asked_with():
    def read(pages: list[int]) -> str:
        """Read pages."""
        return f"read {pages}"

    def spoils_request(request: Request) -> Reply:
        for message in (*request.messages, *request.messages[:], *([request.messages[-1]] if request.messages else [])):
            if isinstance(message, Assistant):
                for call in message.calls:
                    call.args["pages"].clear()
                message.extra.clear()
        for definition in request.tools:
            definition.parameters.clear()
        cast("dict[str, Any]", request.settings)["stop"].clear()
        return says("Done.") if len(request.messages) > 1 else calls(("read", {"pages": [7]}))

    agent = Agent("desk", tools=[read], settings={"stop": ["x"]})
    async with Team([agent], model=ScriptedModel(spoils_request)) as team:
        await team.run("go", conversation="story")
        await team.run("again", conversation="story")
        [replied, *_] = await recorded(team, "ModelReplied")
        assert replied.calls[0].args == {"pages": [7]}
        assert team.roster.seats["desk"].definitions[0].parameters["required"] == ["pages"]  # type: ignore[union-attr]
        assert agent.settings == {"stop": ["x"]}


def test_a_context_copies_only_what_is_asked_for_and_once():
    variables = {"seen": ["a"]}
    context = RunContext("c", "c@1", "desk", "1", context=variables)
    assert context == RunContext("c", "c@1", "desk", "1", context={"seen": ["a"]})
    context.context["seen"].append("b")
    assert (context.context, variables) == ({"seen": ["a", "b"]}, {"seen": ["a"]})


DECLARED = [
    Agent("a", settings={"temperature": 0}),
    HttpTool("get", url="https://example.org", query={"q": "x"}, headers={"X-Team": "shop"}),
    McpServer("shop", command=["shop"], env={"MODE": "test"}),
    SqlFunction("find", database="${DB}", headers={"X-Team": "shop"}),
    Skill("s", description="d", instructions="i", files={"a.md": "text"}),
]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda each: type(each).__name__)
def test_a_declaration_can_be_copied_pickled_and_read_as_a_dict(declared: Any):
    fields = dataclasses.asdict(declared)
    assert type(declared)(**fields) == declared == copy.deepcopy(declared) == pickle.loads(pickle.dumps(declared))
    assert json.loads(json.dumps(fields, default=str))


def test_the_mappings_of_a_declaration_cannot_be_changed():
    given = {"temperature": 0}
    settings: Any = Agent("a", settings=given).settings
    given["temperature"] = 1
    changes: list[Callable[[], Any]] = [
        lambda: settings.update(temperature=1),
        lambda: settings.pop("temperature"),
        settings.clear,
        lambda: settings.setdefault("top_p", 1),
        lambda: operator.setitem(settings, "temperature", 1),
        lambda: operator.delitem(settings, "temperature"),
        lambda: operator.ior(settings, {"temperature": 1}),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="a declaration cannot be changed"):
            change()
    assert settings == {"temperature": 0}
