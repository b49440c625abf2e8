"""Wrong calls of a team: each raises one error of ours, which says who and what, and nothing is recorded."""

from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Approve, Team
from changeover.errors import (
    ApprovalError,
    ChangeoverError,
    ConversationNotFound,
    HandoffNotFound,
    MisconfiguredError,
    PackageError,
    UnknownAgentError,
)
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.relay.ports.lists import ConversationRow
from changeover.routing import Profile
from changeover.testing import ScriptedModel
from tests.public_api import only_error

CALLS: dict[str, tuple[Callable[[Any], Any], type[ChangeoverError], str]] = {
    "a message that is a number": (
        lambda desk: desk.run(5),
        MisconfiguredError,
        "what the user says must be a str, not int",
    ),
    "an answer by nobody": (
        lambda desk: desk.run("Hello", agent="c"),
        UnknownAgentError,
        "no agent is called 'c'; this team has: a, b",
    ),
    "a context that is a number": (
        lambda desk: desk.run("Hello", context=5),
        MisconfiguredError,
        "the context must be a mapping of names to values, not int",
    ),
    "a context that JSON cannot hold": (
        lambda desk: desk.run("Hello", context={"order": object()}),
        MisconfiguredError,
        "the context must be what JSON can hold: Encoding objects of type object is unsupported",
    ),
    "a context with a reserved name": (
        lambda desk: desk.run("Hello", context={"_handoff_from": "a"}),
        MisconfiguredError,
        "the context variable '_handoff_from' is reserved; rename it",
    ),
    "a conversation with a space": (
        lambda desk: desk.run("Hello", conversation="a b"),
        MisconfiguredError,
        "'a b' cannot be a conversation's id; use 1 to 128 letters, digits, '.', '_', '-'",
    ),
    "limits of a run that are a number": (
        lambda desk: desk.run("Hello", limits=5),
        MisconfiguredError,
        "limits=5 is not a Limits(…); give one, such as Limits(max_turns=20)",
    ),
    "a user that is a number": (
        lambda desk: desk.run("Hello", user=5),
        MisconfiguredError,
        "user must be a str, not int",
    ),
    "a key that is a number": (lambda desk: desk.run("Hello", key=5), MisconfiguredError, "key must be a str, not int"),
    "a file that does not exist": (
        lambda desk: desk.run("Hello", files=["nowhere.png"]),
        MisconfiguredError,
        "the file 'nowhere.png' cannot be read: No such file or directory",
    ),
    "a file instead of a list": (
        lambda desk: desk.run("Hello", files="nowhere.png"),
        MisconfiguredError,
        "files must be a list, not str; put a single file in a list too",
    ),
    "a strategy of a run by its name": (
        lambda desk: desk.run("Hello", strategy="full"),
        MisconfiguredError,
        (
            "the run has strategy='full'; give Full(), MessageOnly(), Recent(), Summary(), Reference(), or a "
            "function of a Handover"
        ),
    ),
    "a model of a run without a provider": (
        lambda desk: desk.run("Hello", model="gpt"),
        MisconfiguredError,
        "agents 'a', 'b' have model='gpt', which names no known provider; did you mean 'openai-chat:gpt-5'?",
    ),
    "a member that there is": (
        lambda desk: desk.register(Agent("a")),
        MisconfiguredError,
        "2 agents are called 'a'; give each an id of its own",
    ),
    "a member by its id": (
        lambda desk: desk.register("c"),
        MisconfiguredError,
        "'c' cannot be a member; give Agent(…), Function(…) or Person(…)",
    ),
    "a package without its protocol": (
        lambda desk: desk.offer({}),
        PackageError,
        '$.protocol: is missing; this version of Changeover writes "1.0"',
    ),
    "a package that is no JSON": (
        lambda desk: desk.offer("refund"),
        PackageError,
        "$: cannot be read as JSON (JSON is malformed: invalid character (byte 0))",
    ),
    "a package to nobody": (
        lambda desk: desk.offer(HandoffPackage(Task("Refund"), metadata=Metadata(receiver="c"))),
        UnknownAgentError,
        "no agent is called 'c'; this team has: a, b",
    ),
    "a package without a receiver": (
        lambda desk: desk.submit(HandoffPackage(Task("Refund"))),
        PackageError,
        "$.metadata.receiver: is empty; name one of a, b, or let Team.broker find one by a capability",
    ),
    "a capability without a name": (
        lambda desk: desk.broker("", HandoffPackage(Task("Refund"))),
        MisconfiguredError,
        "'' is no capability; give its name, such as 'contract-law'",
    ),
    "a claim for nobody": (
        lambda desk: desk.claim("c"),
        UnknownAgentError,
        "no agent is called 'c'; this team has: a, b",
    ),
    "a claim of nothing": (
        lambda desk: desk.claim("a", limit=0),
        MisconfiguredError,
        "limit=0 must be a whole number, 1 or more",
    ),
    "a lease that is a text": (
        lambda desk: desk.claim("a", lease="long"),
        MisconfiguredError,
        "lease='long' must be a number of seconds, more than 0",
    ),
    "the status of no ticket": (
        lambda desk: desk.status(None),
        MisconfiguredError,
        "ticket must be a str, not NoneType",
    ),
    "the status of an unknown ticket": (lambda desk: desk.status("x"), HandoffNotFound, "no handoff has the id 'x'"),
    "the result of an unknown ticket": (lambda desk: desk.result("x"), HandoffNotFound, "no handoff has the id 'x'"),
    "an unknown conversation to resume": (
        lambda desk: desk.resume("x"),
        ConversationNotFound,
        "no conversation has the id 'x'",
    ),
    "no conversation to resume": (
        lambda desk: desk.resume(None),
        MisconfiguredError,
        "conversation must be a str, not NoneType",
    ),
    "no conversation to follow": (
        lambda desk: desk.follow(None),
        MisconfiguredError,
        "conversation must be a str, not NoneType",
    ),
    "a decision that is True": (
        lambda desk: desk.decide("x", True),
        ApprovalError,
        "decide by Approve(), Reject(…), Edit(…) or Respond(…), not by True",
    ),
    "a decision about an unknown request": (
        lambda desk: desk.decide("x", Approve()),
        ApprovalError,
        "'x' is not the id of an approval; the list of approvals has the ids",
    ),
    "roles that are one text": (
        lambda desk: desk.decide("x", Approve(), roles="manager"),
        ApprovalError,
        "roles='manager' is not a list of names, such as ['manager']",
    ),
    "a number to cancel": (
        lambda desk: desk.cancel(5),
        MisconfiguredError,
        "cancel by the id of a conversation, a run, a handoff or a ticket, not by 5",
    ),
    "an unknown handoff to undo": (lambda desk: desk.rollback("x"), HandoffNotFound, "no handoff has the id 'x'"),
    "no handoff to undo": (lambda desk: desk.rollback(None), MisconfiguredError, "handoff must be a str, not NoneType"),
    "no conversation to forget": (
        lambda desk: desk.forget(None),
        MisconfiguredError,
        "conversation must be a str, not NoneType",
    ),
    "the history of an unknown conversation": (
        lambda desk: desk.history("x"),
        ConversationNotFound,
        "no conversation has the id 'x'",
    ),
    "a history after less than nothing": (
        lambda desk: desk.history("x", after=-1),
        MisconfiguredError,
        "after=-1 is no sequence number; give the `seq` of an event, or 0",
    ),
    "metrics of a day in words": (
        lambda desk: desk.metrics("day"),
        MisconfiguredError,
        "window='day' is not a length of time; give seconds above 0, or a timedelta",
    ),
    "a measure that is a word": (
        lambda desk: desk.measure("x", "satisfaction", "good"),
        MisconfiguredError,
        "the value 'good' is not a number that can be counted with",
    ),
    "a profile that is an id": (
        lambda desk: desk.router.put("a"),
        MisconfiguredError,
        "profile='a' is not a Profile(…); give one, such as Profile('billing')",
    ),
    "a profile with a space in its id": (
        lambda desk: desk.router.put(Profile("a b")),
        MisconfiguredError,
        "'a b' is not a valid id; use letters, digits, '-' and '_', at most 64",
    ),
    "nobody to enable": (
        lambda desk: desk.router.enable("c"),
        UnknownAgentError,
        "no agent is called 'c'; this team has: a, b",
    ),
}


@pytest.mark.parametrize("wrong", CALLS)
async def test_a_wrong_call_is_reported_before_anything_is_recorded(wrong: str):
    use, kind, text = CALLS[wrong]
    async with Team([Agent("a"), Agent("b")], model=ScriptedModel({})) as team:
        error = await only_error(lambda: use(team))
        assert (type(error), str(error)) == (kind, text)
        assert await team.log.lists.listed(ConversationRow) == []
