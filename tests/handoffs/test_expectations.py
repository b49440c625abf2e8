"""What a handoff expects: faults that are found when it is declared, and results that do not fit."""

import functools
import json
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from changeover.handoffs.expectations import (
    Expects,
    complaint,
    expectations_of,
    expected,
    fault,
    judged_later,
    value_of,
    words_of,
)
from changeover.handoffs.package import Expectations

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "on": {"type": "string", "format": "date-time"}},
    "required": ["amount"],
}


class Refund(BaseModel):
    order: str
    amount: Annotated[float, Field(gt=0)]


class Brittle(BaseModel):
    amount: float

    @field_validator("amount")
    @classmethod
    def breaks(cls, amount: float) -> float:
        raise KeyError("amount")


@dataclass
class Delivery:
    on: date


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


def is_short(text: str) -> bool:
    """It has at most ten characters.

    More nobody reads.
    """
    return len(text) <= 10


def names_the_order(text: str) -> bool | str:
    return "42" in text or "name the order, 42"


async def is_kind(text: str) -> bool:
    return "please" in text


class Polite:
    async def __call__(self, text: str) -> bool:
        return "please" in text


# What is declared


@pytest.mark.parametrize(
    "expects",
    [
        None,
        {},
        SCHEMA,
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"below": {"$ref": "#/$defs/tree"}}}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"const": {"$ref": "is a value here"}},
        {"$defs": {"a": {"$id": "urn:a", "$ref": "#/$defs/b", "$defs": {"b": {}}}}},
        Refund,
        Delivery,
        list[int],
        dict[str, Refund] | None,
        Literal["yes", "no"],
        Mood,
        str,
        Any,
        Expects(output=Refund, criteria=["It is short.", is_short, is_kind, Polite()], timeout=5),
        Expectations(output_schema=SCHEMA, success_criteria=("It is short.",)),
    ],
)
def test_nothing_is_wrong_with_a_schema_a_type_or_an_expects(expects: Any):
    assert fault(expects) == ""


@pytest.mark.parametrize(
    ("expects", "wrong"),
    [
        ({"type": "strin"}, "expects a JSON schema that is not valid: type: 'strin' is not valid"),
        ({"properties": {"a": {"pattern": "("}}}, "that is not valid: properties.a.pattern: '(' is not a 'regex'"),
        ({"$schema": 5}, "that is not valid: $schema: 5 is not of type 'string'"),
        ({"const": float("nan")}, "that is not valid: $.const: is nan, which JSON cannot hold"),
        ({"default": {1: 2}}, "that is not valid: $.default: has the key 1"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"items": {"$ref": "#/$defs/tea"}}, "refers to '#/$defs/tea', which is not in it; nothing is fetched"),
        ({"allOf": [{"$ref": "https://example.org/tea"}]}, "refers to 'https://example.org/tea', which is not in it"),
        ("be brief", "expects the text 'be brief'; a sentence goes into Expects(criteria=[…])"),
        (is_short, "a function that judges goes into Expects(criteria=[…])"),
        (functools.partial(is_short), "a function that judges goes into Expects(criteria=[…])"),
        (5, "expects 5, which is neither a JSON schema nor a type that pydantic knows ("),
        (Refund(order="42", amount=1), "which is neither a JSON schema nor a type that pydantic knows ("),
        (Expects(output={"type": 5}), "expects a JSON schema that is not valid: type: 5"),
        (Expects(criteria="be brief"), "expects criteria 'be brief'; give a list"),
        (Expects(criteria=["  "]), "expects the criterion '  '; give a sentence or a function of the result"),
        (Expects(timeout=0), "expects timeout=0; give a number of seconds above 0, or None"),
        (Expects(timeout=float("inf")), "expects timeout=inf; give"),
        (Expects(timeout=True), "expects timeout=True; give"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_said(expects: Any, wrong: str):
    assert wrong in fault(expects)


def test_a_criterion_must_be_a_sentence_or_a_function():
    wrong: Any = [7]
    assert fault(Expects(criteria=wrong)) == "expects the criterion 7; give a sentence or a function of the result"


# The form of a result


@pytest.mark.parametrize(
    ("expects", "text", "value"),
    [
        (None, "Done.", "Done."),
        (SCHEMA, '{"amount": 20}', {"amount": 20}),
        (SCHEMA, ' \n{"amount": 20}\n', {"amount": 20}),
        (SCHEMA, 'Here it is:\n\n```json\n{"amount": 20}\n```\nAnything else?', {"amount": 20}),
        (SCHEMA, '```\n{"amount": 20}\n```', {"amount": 20}),
        (SCHEMA, '~~~~JSON\n{"amount": 20}\n~~~~', {"amount": 20}),
        (SCHEMA, '```json\n{"amount": 20}', {"amount": 20}),
        (SCHEMA, 'Here it is:\n{"amount": 20,\n "on": "2026-03-01T12:00:00Z"}\nBye.', None),
        (SCHEMA, 'First:\n```json\n{"amount": 1}\n```\nno, rather:\n```json\n{"amount": 2}\n```', {"amount": 2}),
        (
            SCHEMA,
            'You gave:\n```json\n{"order": 42}\n```\nand I give:\n```json\n{"amount": 2}\n```\n[sic]',
            {"amount": 2},
        ),
        (
            SCHEMA,
            'I give:\n```json\n{"amount": 2}\n```\nfor what you gave:\n```json\n{"order": 42}\n```',
            {"amount": 2},
        ),
        (SCHEMA, '{"amount": 20, "note": "```"}', {"amount": 20, "note": "```"}),
        (SCHEMA, '```json\n{"amount": 20, "note": "```json"}\n```', {"amount": 20, "note": "```json"}),
        (Refund, '{"order": "42", "amount": 20}', Refund(order="42", amount=20)),
        (Delivery, '{"on": "2026-03-01"}', Delivery(date(2026, 3, 1))),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], "These are they:\n[1,\n2]", [1, 2]),
        (int, "42", 42),
        (str, "Done.", "Done."),
        (str, "42", "42"),
        (str, '"quoted"', "quoted"),
        (str, 'A report.\n```json\n{"a": 1}\n```', 'A report.\n```json\n{"a": 1}\n```'),
        (Mood, "good", Mood.GOOD),
        (Literal["yes", "no"], "yes", "yes"),
        (Refund | str, '{"order": "42", "amount": 20}', Refund(order="42", amount=20)),
        (Refund | str, "There is nothing to send back.", "There is nothing to send back."),
        ({"enum": ["yes", "no"]}, "no", "no"),
        ({"const": "ok"}, "ok", "ok"),
        ({"type": ["string", "null"]}, "words", "words"),
        ({"type": "null"}, "null", None),
        ({}, "words", "words"),
        ({"description": "Anything."}, "words", "words"),
        (Any, "words", "words"),
        (Expectations(), "words", "words"),
    ],
)
def test_a_result_fits_also_inside_fences_and_other_text(expects: Any, text: str, value: Any):
    assert expected(expects).misfit(text) == ""
    if value is not None:
        assert value_of(expects, text) == value


@pytest.mark.parametrize(
    ("expects", "text", "wrong"),
    [
        (SCHEMA, '{"amount": "20"}', "amount: '20' is not of type 'number'"),
        (SCHEMA, "{}", "the whole: 'amount' is a required property"),
        (SCHEMA, "[]", "the whole: [] is not of type 'object'"),
        (SCHEMA, '{"amount": 1, "on": "tomorrow"}', "on: 'tomorrow' is not a 'date-time'"),
        (SCHEMA, "I sent 20 back.", "it is not JSON (Expecting value"),
        (SCHEMA, '{"amount": 20,}', "it is not JSON ("),
        (SCHEMA, '```json\n{"amount": 20\n```', "it is not JSON (Expecting ',' delimiter"),
        (SCHEMA, '{"amount": NaN}', "it is not JSON (NaN is not a number that JSON can hold)"),
        (SCHEMA, '{"amount": 1e999}', "it is not JSON (1e999 is not a number that JSON can hold)"),
        (SCHEMA, "[" * 100_000, "it is not JSON ("),
        (SCHEMA, "", "it is not JSON ("),
        ({"required": ["amount"]}, "I sent 20 back.", "it is not JSON ("),
        (
            {"type": "array", "items": {"type": "integer"}},
            '[1, "x", 3, "y"]',
            "[1]: 'x' is not of type 'integer'; [3]:",
        ),
        ({"anyOf": [{"type": "null"}, SCHEMA]}, '{"amount": "x"}', "amount: 'x' is not of type 'number'"),
        ({"type": "string", "maxLength": 3}, "words", "the whole: 'words' is too long"),
        (Refund, '{"order": "42"}', "amount: Field required"),
        (
            Refund,
            '{"order": 42, "amount": -1}',
            "order: Input should be a valid string; amount: Input should be greater",
        ),
        (Brittle, '{"amount": 1}', "KeyError: 'amount'"),
        (list[int], '[1, "x"]', "[1]: Input should be a valid integer"),
        (Mood, "so so", "the whole: Input should be 'good' or 'bad'"),
        (int, "about 42", "it is not JSON ("),
        ({"$ref": "#"}, "1", "it cannot be checked against the schema (maximum recursion depth exceeded"),
        ({"$ref": "https://example.org/tea"}, "1", "it cannot be checked against the schema (Unresolvable"),
    ],
)
def test_the_text_about_a_misfit_says_why_and_what_would_fit(expects: Any, text: str, wrong: str):
    told = expected(expects).misfit(text)
    assert told.startswith("the result does not have the expected form: ")
    assert wrong in told
    schema = expects if isinstance(expects, dict) else expectations_of(expects).output_schema
    assert told.endswith(f"Give all of it again, to fit {json.dumps(schema)}")
    with pytest.raises(ValueError, match="does not have the expected form"):
        value_of(expects, text)


def test_nothing_is_fetched_from_an_address_in_a_schema():
    asked: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with ThreadingHTTPServer(("127.0.0.1", 0), Listening) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        schema = {"$ref": f"http://127.0.0.1:{server.server_port}/tea"}
        assert "nothing is fetched" in fault(schema)
        assert "it cannot be checked against the schema (Unresolvable" in expected(schema).misfit("1")
        server.shutdown()
    assert asked == []


def test_many_faults_and_long_schemas_are_cut():
    schema = {"type": "array", "items": {"type": "integer"}, "description": "x" * 5_000}
    told = expected(schema).misfit(json.dumps(["y" * 1_000] * 100))
    assert len(told) < 6_000
    assert "[9]: " in told
    assert "[10]: " not in told
    assert told.endswith(" […]")


@given(st.text(st.sampled_from('`~{}[]"\n\\ 1,:aé\ud800'), max_size=60))
def test_any_text_can_be_checked(text: str):
    for expects in (SCHEMA, list[int], str):
        assert isinstance(expected(expects).misfit(text), str)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_any_json_in_a_fence_is_found(value: Any):
    text = f"Here:\n```json\n{json.dumps({'it': value}, indent=2)}\n```\nDone."
    assert value_of({"type": "object"}, text) == {"it": value}


# Success criteria


def test_a_criterion_in_words_is_left_to_the_reader():
    assert Expects(criteria=["It is in verse."]).misfit("prose") == ""


def test_a_function_judges_the_text_if_no_form_is_expected():
    expects = Expects(criteria=[is_short, names_the_order])
    assert expected(expects).misfit("order 42") == ""
    assert expected(expects).misfit("order 17") == "name the order, 42"
    wrong = "the result does not meet this: It has at most ten characters.; name the order, 42"
    assert expected(expects).misfit("a very long result") == wrong


def test_a_function_judges_the_value_if_a_form_is_expected():
    expects = Expects(output=Refund, criteria=[lambda refund: refund.amount <= 20 or "send back 20 at most"])
    assert expected(expects).misfit('{"order": "42", "amount": 20}') == ""
    assert expected(expects).misfit('{"order": "42", "amount": 21}') == "send back 20 at most"


def test_criteria_are_not_called_for_a_result_of_the_wrong_form():
    asked: list[Any] = []

    def ask(refund: Refund) -> bool:
        asked.append(refund)
        return True

    expects = Expects(output=Refund, criteria=[ask])
    assert expected(expects).misfit("prose") != ""
    assert asked == []
    assert expected(expects).misfit('{"order": "42", "amount": 1}') == ""
    assert asked == [Refund(order="42", amount=1)]


def test_a_criterion_that_raises_refuses_the_result():
    broken = Expects(criteria=[lambda text: bool(text[100])])
    told = "a check by the sender: the check raised IndexError: string index out of range"
    assert expected(broken).misfit("short") == told


@pytest.mark.parametrize("outcome", [None, 1, 0, [], object()])
def test_a_criterion_that_returns_no_bool_refuses_the_result(outcome: Any):
    told = Expects(criteria=[lambda text: outcome]).misfit("text")
    assert f"the check returned {type(outcome).__name__} and not bool" in told


def test_a_coroutine_from_a_plain_function_refuses_the_result():
    hidden: Any = lambda text: is_kind(text)  # noqa: E731, PLW0108
    assert "the check returned coroutine and not bool" in Expects(criteria=[hidden]).misfit("text")


async def test_async_criteria_are_returned_for_the_caller_to_await():
    polite = Polite()
    expects = Expects(output=str, criteria=["It is short.", is_short, is_kind, polite, functools.partial(is_kind)])
    assert expected(expects).misfit("hello") == ""
    assert [complaint(judge, await judge(value_of(expects, "hello"))) for judge in judged_later(expects)] == [
        "the result does not meet this: is kind",
        "the result does not meet this: Polite",
        "the result does not meet this: partial",
    ]
    assert [complaint(judge, await judge("please")) for judge in judged_later(expects)] == ["", "", ""]


# As it travels


def test_expectations_travel_as_a_schema_and_words():
    expects = Expects(output=list[int], criteria=["It is short.", is_short, names_the_order, lambda text: True])
    assert expectations_of(expects) == Expectations(
        output_schema={"type": "array", "items": {"type": "integer"}},
        success_criteria=(
            "It is short.",
            "It has at most ten characters.",
            "names the order",
            "a check by the sender",
        ),
    )
    assert expectations_of(Expects(timeout=5)).timeout == 5
    assert expectations_of(None) == Expectations()


def test_expectations_of_a_package_hold_for_the_receiver():
    there = expected(expectations_of(Expects(output=SCHEMA, criteria=["It is short."], timeout=5)))
    assert there == Expects(output=SCHEMA, criteria=("It is short.",), timeout=5.0)
    assert "amount" in expected(there).misfit("{}")


def test_a_criterion_is_put_in_words():
    assert words_of("It is short.") == "It is short."
    assert words_of(is_short) == "It has at most ten characters."
    assert words_of(names_the_order) == "names the order"
