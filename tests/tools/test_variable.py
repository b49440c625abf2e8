"""Variables of a handoff: what a model is shown, and what becomes of what it wrote."""

import warnings
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from changeover import Agent, Team, Variable, handoff
from changeover.errors import MisconfiguredError
from changeover.testing import ScriptedModel, hands_off, says
from changeover.tools.variable import TYPES, compile_variables, variable_faults


class Address(BaseModel):
    city: str
    title: str = "none"


class Lead(BaseModel):
    lead_id: str = Field(alias="leadId")
    score: int = Field(default=50, ge=0)
    home: Address | None = None


def check(*variables: Variable, **args: Any) -> dict[str, Any] | str:
    return compile_variables(variables)[1](args)


def schema(*variables: Variable) -> dict[str, Any]:
    return compile_variables(variables)[0]


def test_a_model_is_shown_names_types_and_descriptions():
    shown = schema(Variable("order", description="as on the bill"), Variable("amount", "number", required=False))
    assert shown["type"] == "object"
    assert shown["properties"]["order"] == {"type": "string", "description": "as on the bill"}
    assert shown["required"] == ["order"]
    assert shown["additionalProperties"] is False
    assert "title" not in str(shown)


def test_a_handoff_without_variables_takes_no_arguments():
    shown, checked = compile_variables(())
    assert (shown["properties"], checked({})) == ({}, {})
    assert checked({"order": 1}) == "it takes no arguments, not order"


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_shown_as_json_names_it(kind: Any):
    assert schema(Variable("x", kind))["properties"]["x"]["type"] == kind


@pytest.mark.parametrize(
    ("kind", "wrote", "value"),
    [
        ("string", "17", "17"),
        ("integer", 17, 17),
        ("integer", "17", 17),
        ("integer", 17.0, 17),
        ("number", 17, 17.0),
        ("number", "9.5", 9.5),
        ("boolean", True, True),
        ("boolean", "false", False),
        ("boolean", 1, True),
        ("array", [1, "a", None], [1, "a", None]),
        ("object", {"a": {"b": []}}, {"a": {"b": []}}),
    ],
    ids=repr,
)
def test_a_value_that_can_be_converted_is_converted(kind: Any, wrote: object, value: object):
    checked = check(Variable("x", kind), x=wrote)
    assert checked == {"x": value}
    assert isinstance(checked, dict)
    assert type(checked["x"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "wrote"),
    [
        ("string", 17),
        ("string", None),
        ("integer", "many"),
        ("integer", 1.5),
        ("integer", None),
        ("number", "much"),
        ("number", "NaN"),
        ("number", "Infinity"),
        ("boolean", "perhaps"),
        ("boolean", 2),
        ("array", "a, b"),
        ("array", {"a": 1}),
        ("object", [1]),
        ("object", "{}"),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_refused_with_its_name(kind: Any, wrote: object):
    said = check(Variable("x", kind), x=wrote)
    assert isinstance(said, str)
    assert said.startswith("x: ")


def test_all_wrong_values_are_reported_at_once():
    said = check(Variable("a"), Variable("b", "integer"), b="many", c=1)
    assert isinstance(said, str)
    assert [part.split(":")[0] for part in said.split("; ")] == ["a", "b", "c"]


def test_an_optional_variable_that_is_left_out_is_not_there():
    assert check(Variable("a"), Variable("b", required=False), a="x") == {"a": "x"}


def test_the_arguments_of_a_model_are_not_changed():
    args = {"items": [1, 2]}
    checked = compile_variables((Variable("items", "array"),))[1](args)
    assert isinstance(checked, dict)
    checked["items"].append(3)
    assert args == {"items": [1, 2]}


@pytest.mark.parametrize("name", ["schema", "json", "copy", "model_fields", "model_config", "class", "self", "items"])
def test_a_variable_may_have_the_name_of_a_python_keyword_or_attribute(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown, checked = compile_variables((Variable(name),))
    assert list(shown["properties"]) == [name]
    assert checked({name: "x"}) == {name: "x"}


def test_a_pydantic_model_is_shown_and_checked_as_it_is():
    shown, checked = compile_variables(Lead)
    assert list(shown["properties"]) == ["leadId", "score", "home"]
    assert checked({"leadId": "L-1", "score": "80", "home": {"city": "Bern"}}) == {
        "lead_id": "L-1",
        "score": 80,
        "home": {"city": "Bern", "title": "none"},
    }
    said = checked({"leadId": "L-1", "score": -1, "home": {}})
    assert said == "score: Input should be greater than or equal to 0; home.city: Field required"


def test_a_property_that_is_called_title_is_shown():
    assert "title" in compile_variables(Address)[0]["properties"]


def test_the_defaults_of_a_pydantic_model_become_variables():
    checked = compile_variables(Lead)[1]({"leadId": "L-1"})
    assert checked == {"lead_id": "L-1", "score": 50, "home": None}


class Moody(BaseModel):
    order: str

    @field_validator("order")
    @classmethod
    def known(cls, order: str) -> str:
        return {"17": order}[order]


async def test_an_exception_of_a_validator_is_a_fault_that_the_model_reads():
    model = ScriptedModel(
        {
            "triage": [hands_off("billing", "x", order="18"), hands_off("billing", "x", order="17")],
            "billing": [says("Done.")],
        }
    )
    members = [Agent("triage", handoffs=[handoff("billing", variables=Moody)]), Agent("billing")]
    async with Team(members, model=model) as team:
        assert (await team.run("hello")).output == "Done."


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ([Variable("a"), Variable("a")], "declares the variable 'a' twice"),
        ([Variable("the order")], "has a variable called 'the order'; use letters, digits and underscores"),
        ([Variable("")], "has a variable called ''"),
        ([Variable("_handoff_from")], "names that begin with an underscore are reserved"),
        ([Variable("_private")], "names that begin with an underscore are reserved"),
        ([Variable("a", type="date")], "has a variable of type 'date'; use one of string, integer, number"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_with_a_declaration_is_said_with_what_to_do(variables: list[Variable], fault: str):
    [said] = variable_faults(variables)
    assert fault in said


class Opaque:
    """Nothing that JSON knows."""


class Undescribable(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    handle: Opaque


@pytest.mark.parametrize("variables", [int, Undescribable, ["order"]])
def test_variables_that_cannot_be_shown_to_a_model_are_a_fault_of_the_team(variables: Any):
    with pytest.raises(MisconfiguredError, match="agent 'triage' handoff 'handoff_to_billing'"):
        Team(
            [Agent("triage", handoffs=[handoff("billing", variables=variables)]), Agent("billing")],
            model=ScriptedModel({}),
        )
