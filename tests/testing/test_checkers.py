"""assert_valid_history accepts valid histories, and names the message that is wrong."""

from collections.abc import Sequence

import pytest

from changeover.messages import Assistant, Call, Message, Note, ToolResult, User, View
from changeover.relay.ports.world import Request
from changeover.testing import assert_valid_history
from changeover.tools.tool import ToolDefinition

HELLO = User("hello")
ASKED = Assistant("triage", "let me look", calls=(Call("a", "look"), Call("b", "read")))
A = ToolResult("a", "look", "triage", "seen")
B = ToolResult("b", "read", "triage", "read")
WHOLE: list[Message] = [HELLO, ASKED, A, B, Assistant("triage", "done"), User("thanks")]


def a_request(messages: Sequence[Message], *tools: str) -> Request:
    return Request(
        agent="triage",
        instructions="",
        messages=messages,
        tools=tuple(ToolDefinition(name, "", {}) for name in tools),
        settings={},
        conversation="c",
        command="1",
        attempt=1,
        turn=0,
    )


def broken(history: Request | Sequence[Message], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        assert_valid_history(history)


def test_a_whole_history_passes_as_a_request_a_list_and_a_view():
    assert_valid_history(WHOLE)
    assert_valid_history(View(WHOLE))
    assert_valid_history(a_request(View(WHOLE), "look", "read"))


def test_a_history_may_be_empty_and_may_end_with_an_answer():
    assert_valid_history([])
    assert_valid_history([HELLO, Assistant("triage", "hi")])


def test_the_calls_of_another_agent_are_as_good_as_ones_own():
    handed = Assistant("front", calls=(Call("h", "handoff", {"to": "triage"}),))
    assert_valid_history(a_request([HELLO, handed, ToolResult("h", "handoff", "front", "transferred to triage")]))


def test_the_same_call_id_may_come_again_in_a_later_message():
    assert_valid_history([HELLO, ASKED, A, B, ASKED, A, B])


@pytest.mark.parametrize("last", [HELLO, Note("over to you", "front"), A], ids=lambda last: type(last).__name__)
def test_a_model_may_be_asked_after_a_user_a_result_or_a_note(last: Message):
    before: list[Message] = [Assistant("triage", calls=(Call("a", "look"),))] if last is A else []
    assert_valid_history(a_request([*before, last]))


def test_a_call_without_an_answer_is_found():
    broken([HELLO, ASKED, A, User("well?")], "message 1 is wrong: its call 'b' has no answer directly after it")


def test_a_call_without_an_answer_at_the_very_end_is_found():
    broken([HELLO, ASKED], "message 1 is wrong: its call 'a' has no answer directly after it")


def test_an_answer_that_does_not_come_directly_after_its_call_is_found():
    broken([HELLO, ASKED, Note("wait"), A, B], "message 1 is wrong: its call 'a' has no answer directly after it")


def test_answers_out_of_call_order_are_found():
    broken([HELLO, ASKED, B, A], "message 2 is wrong: it answers the call 'b' where the answer to 'a' is due")


def test_a_second_answer_to_a_call_is_found():
    broken([HELLO, ASKED, A, B, A], "message 4 is wrong: it answers the call 'a' for the second time")


def test_a_result_without_a_call_is_found():
    stray = ToolResult("x", "look", "triage", "seen")
    broken([HELLO, ASKED, A, B, stray], "message 4 is wrong: it answers the call 'x' which .* did not make")


@pytest.mark.parametrize("before", [[], [HELLO], [HELLO, Assistant("triage", "hi")]])
def test_an_answer_after_a_message_without_calls_is_found(before: list[Message]):
    broken([*before, A], f"message {len(before)} is wrong: it answers the call 'a' which .* did not make")


def test_an_answer_under_the_name_of_another_tool_is_found():
    wrong = ToolResult("a", "read", "triage", "seen")
    broken([HELLO, ASKED, wrong, B], "message 2 is wrong: .* from the tool 'read', but 'look' was called")


def test_an_answer_to_another_agent_is_found():
    wrong = ToolResult("b", "read", "billing", "read")
    broken([HELLO, ASKED, A, wrong], "message 3 is wrong: it is addressed to 'billing', but 'triage' made the call")


def test_two_calls_of_one_id_are_found():
    twins = Assistant("triage", calls=(Call("a", "look"), Call("a", "look")))
    broken([HELLO, twins, A, A], "message 1 is wrong: several of its calls have the id 'a'")


def test_a_call_without_an_id_is_found():
    nameless = Assistant("triage", calls=(Call("", "look"),))
    broken(
        [HELLO, nameless, ToolResult("", "look", "triage", "seen")], "message 1 is wrong: one of its calls has no id"
    )


@pytest.mark.parametrize("message", [User("hi", ""), User("hi", " "), Assistant("", "hi"), Note("hi", "")], ids=repr)
def test_a_message_without_an_author_is_found(message: Message):
    broken([HELLO, message], "message 1 is wrong: it has no author")


def test_an_object_that_is_not_a_message_is_found():
    broken(["hello"], "message 0 is wrong: it is not a message\n  'hello'")  # type: ignore[list-item]


def test_the_error_shows_the_wrong_message_in_full():
    broken([HELLO, ASKED], r"\n  Assistant\(agent='triage', text='let me look', .*name='read'")


def test_two_tools_of_one_name_are_found_in_a_request():
    broken(a_request([HELLO], "look", "read", "look"), "'triage' was offered several tools of the name 'look'")


def test_a_request_with_nothing_new_after_an_answer_is_found():
    answered = a_request([HELLO, Assistant("triage", "hi")])
    broken(answered, "message 1 is wrong: 'triage' was asked although nothing new came after it")


def test_a_request_without_any_message_is_found():
    broken(a_request([]), "'triage' was asked without any message")
