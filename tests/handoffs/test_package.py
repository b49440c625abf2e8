"""A package made in Python: little has to be said, and what cannot travel is refused where it is said."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from changeover.errors import PackageError, ProtocolError
from changeover.facts import Mode
from changeover.handoffs.package import (
    Context,
    Decision,
    Expectations,
    FileReference,
    HandoffPackage,
    Metadata,
    Priority,
    Progress,
    Said,
    Step,
    Task,
    ToolCall,
    fingerprint,
    history_of,
)
from changeover.messages import Assistant, Call, Message, Note, ToolResult, User

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LITTLE = HandoffPackage(task=Task("Refund order 42"), metadata=Metadata(receiver="billing"))


def holding_itself() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    return circle


def test_a_task_and_a_receiver_suffice():
    assert LITTLE.task.description == "Refund order 42"
    assert LITTLE.metadata.receiver == "billing"
    assert LITTLE.metadata.mode == "delegate"
    assert LITTLE.metadata.priority == Priority.NORMAL
    assert LITTLE.metadata.attempt == 1
    assert LITTLE.expectations.timeout == 300
    assert (LITTLE.task.id, LITTLE.metadata.timestamp) == ("", None)
    assert LITTLE.protocol == "1.0"


def test_default_values_are_not_written_but_the_version_is():
    assert LITTLE.to_dict() == {
        "protocol": "1.0",
        "task": {"description": "Refund order 42"},
        "metadata": {"receiver": "billing"},
    }


def test_a_timeout_of_none_is_written():
    patient = HandoffPackage(Task("Wait"), expectations=Expectations(timeout=None))
    assert patient.to_dict()["expectations"] == {"timeout": None}
    assert HandoffPackage.from_json(patient.to_json()).expectations.timeout is None


def test_two_packages_share_no_mutable_defaults():
    one, other = HandoffPackage(Task("a")), HandoffPackage(Task("b"))
    one.context.variables["order"] = 42
    one.metadata.unknown["x"] = 1
    one.context.workflow_state.unknown["x"] = 1
    assert "context" not in other.to_dict()
    assert "metadata" not in HandoffPackage(Task("c")).to_dict()
    assert one.to_dict()["context"] == {"variables": {"order": 42}, "workflow_state": {"x": 1}}


def test_a_package_copies_what_it_is_given():
    variables = {"orders": [42]}
    package = HandoffPackage(Task("a"), Context(variables=variables))
    variables["orders"].append(43)
    assert package.context.variables == {"orders": [42]}


@pytest.mark.parametrize(("name", "figure"), [("low", -10), ("normal", 0), ("high", 10), ("urgent", 20)])
def test_a_priority_can_be_given_by_name_constant_or_figure(name: Any, figure: int):
    constant = Priority[name.upper()]
    assert Metadata(priority=name) == Metadata(priority=constant) == Metadata(priority=figure)
    assert Metadata(priority=name).priority == figure


def test_an_unknown_name_of_a_priority_is_refused_with_the_valid_names():
    wrong: Any = "asap"
    with pytest.raises(PackageError, match=r"^\$\.priority: expected `int` or one of low, normal, high, urgent, got"):
        Metadata(priority=wrong)


def test_lists_objects_and_timestamps_can_be_given_in_json_form():
    given: Any = {
        "completed_steps": [{"description": "Looked."}],
        "decisions": [Decision("Refund.")],
        "key_information": ["42"],
    }
    context = Context(**given)
    assert context.completed_steps == (Step("Looked."),)
    assert context.key_information == ("42",)
    late: Any = "2026-03-01T12:00:00Z"
    assert Metadata(deadline=late).deadline == NOON


def test_a_timestamp_needs_a_time_zone():
    with pytest.raises(PackageError, match=r"^\$\.deadline: expected `datetime` with a timezone component"):
        Metadata(deadline=datetime(2026, 3, 1, 12))  # noqa: DTZ001


def test_a_timestamp_survives_a_time_zone_with_seconds_in_its_offset():
    odd = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=1, seconds=7)))
    package = HandoffPackage(Task("x"), metadata=Metadata(deadline=odd))
    assert HandoffPackage.from_json(package.to_json()).metadata.deadline == odd


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


def test_enums_tuples_and_mappings_become_plain_json():
    given = {
        "colour": Colour.RED,
        "size": Size.BIG,
        "pair": (1, 2),
        "view": MappingProxyType({"a": True}),
        "none": None,
    }
    kept = Context(variables=given).variables
    assert kept == {"colour": "red", "size": 3, "pair": [1, 2], "view": {"a": True}, "none": None}
    assert [type(value) for value in kept.values()] == [str, int, list, dict, type(None)]
    assert type(Task(Colour.RED).description) is str
    assert type(Metadata(priority=Priority.HIGH).priority) is int
    assert type(Metadata().priority) is int


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        (float("nan"), "", "is nan, which JSON cannot hold"),
        ([1, {"deep": float("-inf")}], "[1].deep", "is -inf, which JSON cannot hold"),
        (Decimal(1), "", "is of type `Decimal`, which JSON cannot hold"),
        ({"a b": {1, 2}}, "['a b']", "is of type `set`, which JSON cannot hold"),
        (b"bytes", "", "is of type `bytes`, which JSON cannot hold"),
        ({"n": {7: "x"}}, ".n", "has the key 7 of type `int`; JSON has only texts as keys"),
        ("half \ud83d", "", "has half a character (a lone surrogate), which JSON cannot hold"),
        ({"half \ud83d": 1}, "", "has half a character (a lone surrogate), which JSON cannot hold"),
        (holding_itself(), "", "is nested too deeply, or holds itself"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_path(value: object, path: str, problem: str):
    for make, field in [
        (lambda: Context(variables={"it": value}), "variables"),
        (lambda: Metadata(extra={"it": value}), "extra"),
        (lambda: Context(intermediate_results={"it": value}), "intermediate_results"),
    ]:
        with pytest.raises(PackageError) as caught:
            make()
        assert (caught.value.path, caught.value.problem) == (f"$.{field}.it{path}", problem)
    with pytest.raises(PackageError) as caught:
        Task("x", unknown={"it": value})
    assert (caught.value.path, caught.value.problem) == (f"$.it{path}", problem)


def test_a_value_that_was_changed_to_something_else_than_json_is_refused_when_written():
    package = HandoffPackage(Task("a"), Context(variables={"rates": [1.0]}))
    package.context.variables["rates"].append(float("nan"))
    for write in (package.to_json, package.to_dict, lambda: fingerprint(package)):
        with pytest.raises(PackageError, match=r"^\$\.context\.variables\.rates\[1\]: is nan"):
            write()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda wrong: Task(wrong(5)), "$.description: expected `str`, got `int`"),
        (lambda wrong: Task(""), "$.description: expected `str` of length >= 1"),
        (lambda wrong: Task("x", requirements=wrong("one")), "$.requirements: expected `array`, got `str`"),
        (lambda wrong: Context(completed_steps=(wrong("did"),)), "$.completed_steps[0]: expected `object`, got `str`"),
        (lambda wrong: Context(artifacts={"a": wrong(1)}), "$.artifacts.a: expected `str | null`, got `int`"),
        (
            lambda wrong: Task("half \ud83d"),
            "$.description: has half a character (a lone surrogate), which JSON cannot hold",
        ),
        (lambda wrong: Metadata(attempt=0), "$.attempt: expected `int` >= 1"),
        (lambda wrong: Metadata(attempt=wrong(True)), "$.attempt: expected `int`, got `bool`"),
        (lambda wrong: Metadata(priority=2**31), "$.priority: expected `int` <= 2147483647"),
        (lambda wrong: Metadata(mode=wrong("swap")), "$.mode: invalid enum value 'swap'"),
        (lambda wrong: Expectations(timeout=0), "$.timeout: expected `float` > 0.0"),
        (lambda wrong: Expectations(timeout=float("inf")), "$.timeout: is inf, which JSON cannot hold"),
        (lambda wrong: Task("x", unknown=wrong(None)), "$: expected `object`, got `null`"),
        (
            lambda wrong: Task("x", unknown={"id": "7"}),
            "$.id: is a field of its own, and cannot be among the unknown ones",
        ),
        (lambda wrong: HandoffPackage(wrong("x")), "$.task: expected `object`, got `str`"),
        (lambda wrong: replace(LITTLE, context=wrong(5)), "$.context: expected `object`, got `int`"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(make: Any, message: str):
    with pytest.raises(PackageError) as caught:
        make(lambda value: value)
    assert str(caught.value) == message
    assert isinstance(caught.value, ProtocolError)


@pytest.mark.parametrize("version", ["2.0", "11.0", "0.9"])
def test_another_major_version_is_refused_with_both_versions(version: str):
    text = f'{{"protocol": "{version}", "task": 7}}'
    for make in (lambda: HandoffPackage.from_json(text), lambda: HandoffPackage(Task("x"), protocol=version)):
        with pytest.raises(PackageError) as caught:
            make()
        expected = f"$.protocol: is {version}, and this version of Changeover reads 1.x (it writes 1.0)"
        assert str(caught.value) == expected


@pytest.mark.parametrize("version", ['"1"', '"1.0.0"', '"one"', '"1.0\\n"', '"1.٣"', "1.0", "true"])
def test_a_version_must_be_major_and_minor(version: str):
    with pytest.raises(PackageError, match=r'^\$\.protocol: expected a version like "1.0", got '):
        HandoffPackage.from_json(f'{{"protocol": {version}, "task": {{"description": "x"}}}}')


def test_json_without_a_version_is_refused():
    with pytest.raises(PackageError, match=r"^\$\.protocol: is missing"):
        HandoffPackage.from_json('{"task": {"description": "x"}}')


def test_a_later_minor_version_is_written_back_unchanged():
    text = '{"protocol": "1.7", "task": {"description": "x", "new": 1}}'
    assert HandoffPackage.from_json(text).to_json() == text


@pytest.mark.parametrize("text", ["", "{", "NaN", "[" * 100_000, b"\xff", '{"a": 1e999}', '"\ud800"'])
def test_text_that_is_not_json_is_refused(text: str | bytes):
    with pytest.raises(PackageError, match=r"^\$: cannot be read as JSON \("):
        HandoffPackage.from_json(text)


def test_a_fingerprint_ignores_attempt_timestamp_and_minor_version():
    again = replace(LITTLE, metadata=replace(LITTLE.metadata, attempt=3, timestamp=NOON), protocol="1.4")
    assert fingerprint(again) == fingerprint(LITTLE)
    assert len(fingerprint(LITTLE)) == 64


def test_a_fingerprint_is_the_same_in_every_time_zone_and_every_order():
    task, protocol = '"task": {"description": "x"}', '"protocol": "1.0"'
    first = f'{{{protocol}, {task}, "metadata": {{"deadline": "2026-03-01T12:00:00Z", "u": 1}}}}'
    other = f'{{"metadata": {{"u": 1, "deadline": "2026-03-01T13:00:00+01:00"}}, {task}, {protocol}}}'
    assert fingerprint(HandoffPackage.from_json(first)) == fingerprint(HandoffPackage.from_json(other))


@pytest.mark.parametrize(
    "other",
    [
        replace(LITTLE, task=Task("Refund order 43")),
        replace(LITTLE, metadata=Metadata(receiver="sales")),
        replace(LITTLE, metadata=Metadata(receiver="billing", deadline=NOON)),
        replace(LITTLE, context=Context(variables={"order": 42})),
        replace(LITTLE, expectations=Expectations(timeout=None)),
        replace(LITTLE, unknown={"later": True}),
    ],
)
def test_any_other_difference_changes_the_fingerprint(other: HandoffPackage):
    assert fingerprint(other) != fingerprint(LITTLE)


def test_a_fingerprint_stays_the_same_from_release_to_release():
    assert fingerprint(LITTLE) == "f5f5a35c0aba63a96a72c74352a44f3e382a384415ced7a05212625a863b274c"


def test_messages_of_a_conversation_become_the_history_of_a_package():
    messages: list[Message] = [
        User("Where is it?", author="ada"),
        Assistant("triage", "Let me look.", thinking="hm", calls=(Call("c1", "find", {"order": 42}),)),
        ToolResult("c1", "find", "triage", "in the post"),
        Note("Be brief."),
    ]
    assert history_of(messages) == (
        Said("ada", "Where is it?"),
        Said("triage", "Let me look.", "agent", (ToolCall("find", {"order": 42}),)),
        Said("find", "in the post", "tool"),
        Said("changeover", "Be brief.", "note"),
    )


def test_a_part_can_be_written_alone():
    assert Progress(phase="refund", done=("lookup",)).to_dict() == {"phase": "refund", "done": ["lookup"]}
    assert FileReference("a.md", unknown={"mime": "text"}).to_dict() == {"path": "a.md", "mime": "text"}
    assert Metadata(mode=Mode.TRANSFER, timestamp=NOON).to_dict() == {
        "mode": "transfer",
        "timestamp": "2026-03-01T12:00:00Z",
    }


@pytest.mark.parametrize("module", ["package", "answers", "expectations"])
def test_importing_the_protocol_imports_no_heavy_libraries(module: str):
    heavy = {"pydantic", "jsonschema", "asyncio"}
    program = f"import sys, changeover.handoffs.{module}; sys.exit(', '.join({heavy} & sys.modules.keys()) or None)"
    subprocess.run([sys.executable, "-c", program], check=True)
