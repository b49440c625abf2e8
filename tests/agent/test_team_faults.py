"""A badly built team: everything that is wrong comes at once, each with what to do about it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from changeover import (
    Agent,
    Full,
    Function,
    Limits,
    MessageOnly,
    Person,
    Recent,
    Reference,
    Summary,
    Team,
    Variable,
    delegate,
    handoff,
    specialist,
    tool,
)
from changeover.errors import MisconfiguredError
from changeover.guards import Deadlock
from changeover.testing import ScriptedModel, says

MODEL = ScriptedModel({"a": [says("Hello.")]})


def faults(members: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(MisconfiguredError) as caught:
        Team(members, **{"model": MODEL, **options})
    return caught.value.faults


def fault(members: Any, **options: Any) -> str:
    [only] = faults(members, **options)
    return only


def look() -> str:
    """Look."""
    return ""


def forges(_handoff_from: str) -> str:
    """Forge."""
    return ""


def named(name: str) -> Any:
    def function() -> str:
        return ""

    function.__name__ = name
    return function


def test_all_faults_of_a_team_are_reported_at_once():
    members = [
        Agent("two words", tools=[look, look]),
        Agent("twin", handoffs=["nobody", handoff("nowhere", return_to="neverland", variables=[Variable("_x")])]),
        Agent("twin", skills=["x"], tools=[named("no good")], model="nobody:gpt-5"),
        Function("fn", "not a function"),  # type: ignore[arg-type]
    ]
    found = faults(members, start="missing", limits=Limits(max_turns=0), hooks={"x": print}, rules=["r"], model=None)
    expected = [
        "2 agents are called 'twin'; give each an id of its own",
        "start='missing' is not in the team; choose one of fn, twin, two words",
        "agent 'two words' has an invalid id; use letters",
        "agent 'two words' has two tools called 'look' (a function and a function); give one of them another name=",
        "agent 'two words' has no model; give it one with Agent(model=…), or all of them with Team(model=…)",
        "agent 'twin' hands off to 'nobody', which is not in the team; choose one of",
        "agent 'twin' hands off to 'nowhere', which is not in the team; choose one of",
        "agent 'twin' handoff 'handoff_to_nowhere' returns to 'neverland', which is not in the team; choose one of",
        "agent 'twin' handoff 'handoff_to_nowhere' has a variable called '_x'; names that begin with",
        "agent 'twin': skill 'x': its SKILL.md cannot be read: No such file or directory",
        "agent 'twin' has a tool called 'no good', which providers refuse; use letters",
        "agent 'twin' has model='nobody:gpt-5', which names no known provider",
        "agent 'fn' needs a function, not str",
        "max_turns is 0; give 1 or more",
        "hook 'x' is not an event; choose one of",
        "the team has the rule 'r'; give Rule(…)",
    ]
    for part in expected:
        assert [said for said in found if said.startswith(part)], f"{part!r} is not among {found}"
    assert len(found) == len(expected)


def test_several_faults_read_as_a_list_and_one_as_a_sentence():
    with pytest.raises(MisconfiguredError) as one:
        Team([Agent("a")])
    assert str(one.value).startswith("agent 'a' has no model; give it one")
    with pytest.raises(MisconfiguredError) as two:
        Team([Agent("a"), Agent("b")])
    assert str(two.value).splitlines()[1].startswith("- agent 'b' has no model")


@pytest.mark.parametrize("members", [[], ()])
def test_a_team_needs_agents(members: Any):
    assert fault(members) == "the team has no agents; give at least one: Team([Agent('triage', …)])"


@pytest.mark.parametrize("id", ["", "a b", "ä", "-a", "a.b", "a/b", "x" * 65, "a\n", 7, None, {"a": 1}])
def test_an_invalid_id_is_a_fault(id: Any):
    assert any("has an invalid id" in said for said in faults([Agent(id), Agent("b", handoffs=["c"])]))


@pytest.mark.parametrize("id", ["a", "A1", "sdr-agent", "7_of_9", "x" * 64])
def test_a_valid_id_has_no_faults(id: str):
    Team([Agent(id)], model=MODEL)


@pytest.mark.parametrize("member", ["a", Agent, ScriptedModel({})])
def test_a_member_that_is_no_agent_is_a_fault(member: Any):
    assert any("Agent" in said for said in faults([member, Agent("b")]))


def test_a_single_agent_in_place_of_a_list_is_a_fault():
    assert "list" in fault(Agent("a"))


@pytest.mark.parametrize("handoffs", ["billing", None, handoff("billing"), [5], [Agent("billing")]])
def test_handoffs_that_are_not_a_list_are_a_fault(handoffs: Any):
    found = faults([Agent("a", handoffs=handoffs), Agent("billing")])
    assert len(found) == 1
    assert found[0].startswith("agent 'a' ")


def test_a_single_tool_in_place_of_a_list_is_a_fault():
    assert fault([Agent("a", tools=look)]).startswith("agent 'a'")  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", [5, "look"])
def test_a_tool_that_cannot_be_called_is_a_fault(tool: Any):
    assert any("agent 'a': tool" in said and "cannot be called" in said for said in faults([Agent("a", tools=[tool])]))


def test_a_tool_with_a_reserved_parameter_is_a_fault():
    said = fault([Agent("a", tools=[forges])])
    assert said == "agent 'a': tool 'forges' has a parameter called '_handoff_from', which is reserved; rename it"


def test_two_handoffs_that_derive_one_tool_name_are_a_fault():
    members = [Agent("a", handoffs=[handoff("b-c"), handoff("b_c")]), Agent("b-c"), Agent("b_c")]
    assert fault(members) == (
        "agent 'a' has two tools called 'handoff_to_b_c' (the handoff to b-c and the handoff to b_c);"
        " give one of them another name="
    )


def test_a_tool_and_a_handoff_of_one_name_are_a_fault():
    a = Agent("a", tools=[look, named("handoff")], handoffs=[handoff("b", name="look"), "b"])
    found = faults([a, Agent("b")])
    assert ["'look'" in found[0], "'handoff'" in found[1]] == [True, True]


@pytest.mark.parametrize("options", [{"handoffs_enabled": False}, {}])
def test_without_a_generic_handoff_another_tool_may_have_its_name(options: dict[str, bool]):
    members = [Agent("a", tools=[named("handoff")])] + ([Agent("b")] if options else [])
    Team(members, model=MODEL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["no good", "ä", "1st", "x" * 65, "a.b"])
def test_names_that_providers_refuse_are_a_fault(name: str):
    assert "which providers refuse" in fault([Agent("a", handoffs=[handoff("b", name=name)]), Agent("b")])
    assert any("which providers refuse" in said for said in faults([Agent("a", tools=[named(name)])]))


def test_a_handoff_whose_own_name_is_too_long_is_a_fault():
    members = [Agent("a", handoffs=[handoff("x" * 60)]), Agent("x" * 60)]
    assert "which providers refuse" in fault(members)


def test_a_merge_that_does_not_exist_is_a_fault():
    members = [Agent("a", handoffs=[handoff("b", merge="join")]), Agent("b")]  # type: ignore[arg-type]
    assert fault(members) == "agent 'a' handoff 'handoff_to_b' has merge='join'; use 'merge' or 'replace'"


@pytest.mark.parametrize(
    "strategy",
    [
        *("full", object(), 5, Summary),
        *(Recent(0), Recent(True), Summary(max_tokens=0), Summary(needs="prices"), Summary(timeout=0)),
        *(Reference(max_bytes=0), Reference(expires=0), Reference(max_facts=-1)),
        *(Full(include=["tools:search"]), MessageOnly(exclude="variable:card")),
    ],
)
def test_a_strategy_that_makes_no_sense_is_a_fault(strategy: Any):
    assert "strategy" in fault([Agent("a", strategy=strategy), Agent("b")])
    assert "strategy" in fault([Agent("a", handoffs=[handoff("b", strategy=strategy)]), Agent("b")])
    assert "strategy" in fault([Agent("a"), Agent("b")], strategy=strategy)


def test_every_strategy_can_be_declared_anywhere():
    for strategy in (Full(), Recent(3), MessageOnly(), Summary(), Reference(), lambda handover: handover.message):
        agent = Agent(
            "a", strategy=strategy, handoffs=[handoff("a", strategy=strategy), delegate("a", strategy=strategy)]
        )
        Team([agent], model=MODEL, helper_model=MODEL, strategy=strategy)


@pytest.mark.parametrize(
    ("briefing", "said"),
    [
        (5, "briefing=5; give a template, or a function of a Brief"),
        ("Your task: {tsk}", "your_task"),
        ("Your task: {your_task", "{"),
    ],
)
def test_a_briefing_that_cannot_be_written_is_a_fault(briefing: Any, said: str):
    assert said in fault([Agent("a", briefing=briefing)])
    assert said in fault([Agent("a")], briefing=briefing)


def test_the_tool_that_reads_what_was_said_before_keeps_its_name():
    @tool
    def fetch_context(ref: str) -> str:
        return ref

    assert "has two tools called 'fetch_context'" in fault([Agent("a", tools=[fetch_context])])


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"accepts": "yes"}, "accepts='yes'; give a function of the package that is offered"),
        ({"requires": ["order"]}, "requires=('order',); give a list of Variable(…)s"),
        ({"requires": "order"}, "requires='order'; give a list of Variable(…)s"),
        ({"requires": None}, "requires=None; give a list of Variable(…)s"),
        ({"requires": Variable("order")}, "give a list of Variable(…)s"),
        ({"requires": [Variable("_order")]}, "names that begin with an underscore are reserved"),
        ({"max_concurrency": 0}, "max_concurrency=0; give 1 or more, or None for no limit"),
    ],
)
def test_wrong_accepts_requires_and_max_concurrency_are_faults(option: dict[str, Any], said: str):
    assert said in fault([Agent("a", **option)])


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"name": 5}, "name=5; give a text"),
        ({"description": ["Payments."]}, "description=('Payments.',); give a text"),
        ({"specialization": None}, "specialization=None; give a text"),
        ({"capabilities": "refunds"}, "capabilities='refunds'; give a list of texts"),
        ({"capabilities": [5]}, "capabilities=(5,); give a list of texts"),
        ({"examples": None}, "examples=None; give a list of texts"),
        ({"instructions": None}, "instructions=None; give a text, or a function of the run's context"),
    ],
)
def test_wrong_texts_of_an_agent_are_faults(option: dict[str, Any], said: str):
    assert fault([Agent("a", **option), Agent("b")]) == f"agent 'a' has {said}"


@pytest.mark.parametrize("member", [Person("p", name=5), Function("p", print, description=["x"])])  # type: ignore[arg-type]
def test_wrong_texts_of_other_members_are_faults(member: Any):
    assert "; give a text" in fault([Agent("a"), member])


@pytest.mark.parametrize("way", [handoff, delegate])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"guards": None}, "has guards=None; give a list, or leave it out"),
        ({"instructions": 5}, "has instructions=5; give a text"),
        ({"description": None}, "has description=None; give a text"),
        ({"timeout": 0}, "timeout=0; give seconds above 0, or None for no limit"),
        ({"timeout": "soon"}, "timeout='soon'; give seconds above 0"),
        ({"alternatives": ["c"]}, "the alternative 'c', which is not in the team; choose one of a, b"),
    ],
)
def test_wrong_options_of_a_handoff_are_faults(way: Any, option: dict[str, Any], said: str):
    assert said in fault([Agent("a", handoffs=[way("b", **option)]), Agent("b")])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (lambda b: b, "hands off to "),
        (handoff, "hands off to "),
        (delegate, "hands off to "),
        (lambda b: handoff("b", return_to=b), "handoff 'handoff_to_b' returns to "),
        (lambda b: delegate("b", alternatives=[b]), "delegate 'delegate_to_b' has the alternative "),
        (lambda b: specialist(among=[b]), "'handoff_to_specialist' chooses among "),
    ],
)
def test_an_agent_in_place_of_its_id_is_a_fault_that_says_what_to_write(way: Any, said: str):
    b = Agent("b", instructions="A long text.")
    told = fault([Agent("a", handoffs=[way(b)]), b])
    assert told == f"agent 'a' {said}Agent('b', …) itself; name it by its id, 'b'"


def test_a_start_that_is_an_agent_is_a_fault_that_says_what_to_write():
    a = Agent("a")
    assert fault([a], start=a) == "start is Agent('a', …) itself; name it by its id, 'a'"


@pytest.mark.parametrize("option", ["on_rollback", "on_accepted"])
@pytest.mark.parametrize("way", [handoff, delegate])
def test_a_callback_that_is_no_function_is_a_fault(way: Any, option: str):
    assert f"{option}=5; give a function" in fault([Agent("a", handoffs=[way("b", **{option: 5})]), Agent("b")])


@pytest.mark.parametrize("option", ["on_timeout", "on_failure"])
@pytest.mark.parametrize("way", [handoff, delegate])
def test_a_policy_that_does_not_exist_is_a_fault(way: Any, option: str):
    said = f"has {option}='retry'; use 'tell' or 'rollback'"
    assert said in fault([Agent("a", handoffs=[way("b", **{option: "retry"})]), Agent("b")])


class Whole(RootModel[dict[str, int]]):
    """A pydantic model without fields."""


class Parts(BaseModel):
    task: int


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ([Variable("task")], "has a variable called 'task', which is a parameter of every delegate"),
        ([Variable("context", "object")], "has a variable called 'context', which is a parameter of every delegate"),
        (Parts, "has a variable called 'task', which is a parameter of every delegate"),
        (Whole, "has variables=, a pydantic model without fields of its own; give one with fields"),
        ([Variable("a b")], "has a variable called 'a b'"),
    ],
)
def test_variables_that_cannot_stand_beside_a_task_are_a_fault(variables: Any, said: str):
    assert f"delegate 'delegate_to_b' {said}" in fault(
        [Agent("a", handoffs=[delegate("b", variables=variables)]), Agent("b")]
    )


def test_an_engine_that_is_no_function_is_a_fault():
    assert fault([Agent("a")], engine=5) == "engine=5 is not a function that makes an engine from an EngineSetup"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"hooks": [print]}, "give a dict of events to functions, such as {'agent_handoff': print}"),
        ({"routing": "words"}, "routing='words' is not a Routing(…)"),
        ({"store": Path("desk.db")}, "give an address, such as 'sqlite:///desk.db', or a Store(…)"),
        ({"store": ["sqlite:///desk.db"]}, "give an address"),
    ],
)
def test_what_a_team_cannot_work_with_is_a_fault(option: dict[str, Any], said: str):
    assert said in fault([Agent("a")], **option)


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        ([object()], "which has no check(offer, ledger, facts)"),
        ([Deadlock], "which is a class; give an object of it, Deadlock()"),
        ("deadlock", "guards='deadlock'; give a list"),
        ([Deadlock(window=0)], "has a Deadlock whose window=0 must be a whole number, 1 or more"),
    ],
)
def test_what_cannot_guard_is_a_fault(guards: Any, said: str):
    assert said in fault([Agent("a")], guards=guards)
    for way in (handoff, delegate):
        assert said in fault([Agent("a", handoffs=[way("b", guards=guards)]), Agent("b")])


@pytest.mark.parametrize("way", [handoff, delegate])
def test_a_condition_that_is_no_function_is_a_fault(way: Any):
    said, what = fault([Agent("a", handoffs=[way("b", when=True)]), Agent("b")]), way.__name__
    assert said == f"agent 'a' {what} '{what}_to_b' has when=True; give a plain function of the run's context"


def test_defaults_and_empty_values_are_no_faults():
    empty: dict[str, Any] = {
        "skills": [],
        "capabilities": [],
        "examples": (),
        "accepts_handoffs": True,
        "accepts": None,
        "requires": [],
        "pull": False,
        "max_concurrency": None,
        "output": None,
        "settings": {},
    }
    way = handoff("a", when=None, approval=None, timeout=300.0, alternatives=[], expects=None, on_rollback=None)
    Team(
        [Agent("a", **empty, handoffs=[way])],
        model=MODEL,
        helper_model=None,
        guards=(),
        rules=[],
        hooks={},
        store=None,
        engine=None,
        fallback=False,
        ask=None,
    )


@pytest.mark.parametrize("model", [5, object()])
def test_what_cannot_think_is_no_model(model: Any):
    assert "model" in fault([Agent("a", model=model)])


def test_functions_need_no_model():
    Team([Function("a", lambda ctx: "")])


def test_an_agent_copies_the_callers_lists_and_dicts():
    tools, ways, settings = [look], ["b"], {"temperature": 0}
    agent = Agent("a", tools=tools, handoffs=ways, settings=settings)
    tools.clear()
    ways.append("c")
    settings["temperature"] = 1
    assert (agent.tools, agent.handoffs, dict(agent.settings)) == ((look,), ("b",), {"temperature": 0})


def test_an_agent_cannot_be_changed():
    agent = Agent("a", settings={"temperature": 0})
    with pytest.raises(AttributeError):
        agent.id = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        agent.settings["temperature"] = 1  # type: ignore[index]
