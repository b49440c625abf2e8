"""One conversation through several providers: each reads other agents' turns as quotations and its own natively."""

import json
from collections.abc import Callable
from typing import Any

from changeover import Agent, Team
from tests.models.aimock import Server

Opened = Callable[..., Team]
ModelOf = Callable[[str], Any]


def look(n: int) -> str:
    """Look up a number."""
    return f"found {n}"


async def test_a_conversation_goes_from_openai_to_anthropic_to_google_and_back(
    server: Server, opened: Opened, model_of: ModelOf
):
    providers = {"first": "chat", "second": "anthropic", "third": "google"}
    team = opened(
        [
            Agent(id, instructions=f"You are {id} on tour.", model=model_of(api), tools=[look])
            for id, api in providers.items()
        ]
    )
    result = await team.run("Let us begin the tour.")
    assert (result.output, result.final_agent) == ("Looked up 1, 2 and 3.", "third")
    assert [record.receiver for record in result.handoff_chain] == ["second", "third"]
    again = await team.run("And you?", conversation=result.conversation_id, agent="first")
    assert again.output == "I am the first again."
    requests = server.requests("Let us begin the tour.")
    assert [len(native(body)) for body in requests] == [0, 1, 0, 1, 0, 1, 2]
    for body in requests:
        check_results(body)
    first_again = everything(requests[-1])
    assert "found 2" in first_again
    assert "[[team: quotes second]]" in first_again


def native(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that the model is shown as its own."""
    return [call for message in body["messages"] for call in message.get("tool_calls") or ()]


def check_results(body: dict[str, Any]) -> None:
    """Each call has one result, in call order, and what was looked up for others is quoted."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    assert [call["function"]["name"] for call in native(body)] == [result_name(each) for each in results]


def result_name(message: dict[str, Any]) -> str:
    return "look" if "found" in message["content"] else "handoff"


def everything(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)
