"""What a receiver says to an offer, and what `accepts` may return for it."""

from typing import Any

import msgspec
import pytest

from changeover.handoffs.answers import Accepted, Answer, Conditional, Rejected, answer_of

ANSWERS: list[Answer] = [
    Accepted(),
    Accepted(estimated_completion=90.5),
    Rejected("busy until noon"),
    Rejected("no refunds here", suggested_alternative="billing"),
    Conditional(needs_more_context=("the order number",)),
    Conditional(needs_permission=("send money",), estimated_completion=5),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_an_answer_survives_a_round_trip_through_json(answer: Answer):
    assert answer_of(answer) == answer
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer


def test_an_answer_says_in_json_what_it_is():
    written = msgspec.json.encode(Conditional(needs_permission=("send money",)))
    assert written == b'{"status":"conditional","needs_permission":["send money"]}'


@pytest.mark.parametrize("given", [True, None])
def test_true_and_none_accept(given: object):
    assert answer_of(given) == Accepted()


def test_false_rejects_with_a_default_reason():
    assert answer_of(False) == Rejected("it does not accept this task")


def test_lists_are_valid_for_tuples():
    needs: Any = ["the order number"]
    assert answer_of(Conditional(needs_more_context=needs)) == ANSWERS[4]


def test_a_condition_names_what_is_needed():
    with pytest.raises(ValueError, match="if it needs neither, it is Accepted"):
        Conditional(estimated_completion=5)
    with pytest.raises(msgspec.ValidationError, match="if it needs neither"):
        msgspec.json.decode(b'{"status": "conditional"}', type=Answer)


async def later() -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (1, "accepts returned 1, of type int; return Accepted(…), Rejected(…), Conditional(…), True or False"),
        ({"ok": True}, "accepts returned {'ok': True}, of type dict; return Accepted(…), "),
        (Rejected, "of type StructMeta; return Accepted(…), "),
        ("too busy", "accepts returned the text 'too busy'; to decline, return Rejected(reason)"),
    ],
)
def test_other_values_are_refused_with_their_type(given: object, message: str):
    with pytest.raises(TypeError) as caught:
        answer_of(given)
    assert message in str(caught.value)


def test_an_awaitable_is_refused_as_an_answer():
    unfinished = later()
    with pytest.raises(TypeError, match="returned an awaitable"):
        answer_of(unfinished)
    unfinished.close()


@pytest.mark.parametrize(
    ("kind", "values", "path"),
    [
        (Accepted, {"estimated_completion": "soon"}, "$.estimated_completion"),
        (Accepted, {"estimated_completion": -1}, "$.estimated_completion"),
        (Accepted, {"estimated_completion": float("nan")}, "$.estimated_completion"),
        (Accepted, {"estimated_completion": float("inf")}, "$.estimated_completion"),
        (Rejected, {"reason": None}, "$.reason"),
        (Rejected, {"reason": "busy", "suggested_alternative": 7}, "$.suggested_alternative"),
        (Conditional, {"needs_more_context": "the order number"}, "$.needs_more_context"),
        (Conditional, {"needs_permission": [7]}, "$.needs_permission[0]"),
    ],
)
def test_an_answer_that_could_not_be_stored_is_refused(kind: Any, values: dict[str, Any], path: str):
    with pytest.raises(TypeError) as caught:
        answer_of(kind(**values))
    assert f"accepts returned {kind.__name__}(…) with a wrong value: " in str(caught.value)
    assert f"at `{path}`" in str(caught.value)
