"""Commands: every form in which one may be written, how it is recorded, and what is said of one that does not fit."""

import collections
import threading
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from changeover.handoffs.context import METADATA
from changeover.tools.command import END, BadCommand, Command, Directive, Errand, Send, directive_of

LOOP: list[Any] = []
LOOP.append(LOOP)


class Who(str, Enum):  # noqa: UP042 - as many have written it
    WRITER = "writer"


class Name(str):
    __slots__ = ()


@dataclass
class Lead:
    id: int
    tags: tuple[str, ...] = ()


def complaint(command: Command) -> str:
    with pytest.raises(BadCommand) as caught:
        directive_of(command)
    return str(caught.value)


# Where it goes


@pytest.mark.parametrize(
    ("command", "directive"),
    [
        (Command(), Directive()),
        (Command(goto="writer"), Directive(goto="writer")),
        (Command("writer", message="Write it."), Directive(goto="writer", message="Write it.")),
        (Command(END), Directive(end=True)),
        (Command(END, {"output": "That is all."}), Directive(end=True, output="That is all.")),
        (Command(Send("a")), Directive(sends=(Errand("a"),))),
        (Command([Send("a", {"n": 1}, "count")]), Directive(sends=(Errand("a", {"n": 1}, "count"),))),
        (
            Command((Send("a", {"n": 1}), "b", Send("a", {"n": 2}))),
            Directive(sends=(Errand("a", {"n": 1}), Errand("b"), Errand("a", {"n": 2}))),
        ),
    ],
)
def test_the_goto_of_a_command_is_none_an_agent_several_or_the_end(command: Command, directive: Directive):
    assert directive_of(command) == directive


@pytest.mark.parametrize(
    ("command", "leads"),
    [
        (Command(), False),
        (Command(update={"context": {"a": 1}}), False),
        (Command("writer"), True),
        (Command(END), True),
        (Command([Send("writer")]), True),
    ],
)
def test_a_directive_leads_unless_it_only_updates_the_context(command: Command, leads: bool):
    assert directive_of(command).leads is leads


def test_the_end_is_shown_as_it_is_written():
    assert repr(Command(END)) == "Command(goto=END, update={}, message='')"


@pytest.mark.parametrize("goto", ["", [], (), {}, {"a"}, iter(["a"]), 3, True, Command("a"), Command, Lead(1)])
def test_an_invalid_goto_is_refused_with_what_is_possible(goto: Any):
    said = complaint(Command(goto))
    assert said.startswith("goto is ")
    assert said.endswith("give the id of an agent, a Send(…) or a list of them, or END")


def test_the_text_about_an_invalid_goto_is_short():
    assert complaint(Command({"a"})).startswith("goto is {'a'};")  # type: ignore[arg-type]
    assert len(complaint(Command({"x" * 10_000: 1}))) < 200  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("goto", "words"),
    [
        (Send(3), "goto.receiver is 3; give a str"),  # type: ignore[arg-type]
        (Send(""), "goto.receiver is empty; give the id of an agent"),
        ([Send("a"), Send(None)], "goto[1].receiver is None; give a str"),  # type: ignore[arg-type]
        (["a", ""], "goto[1] is empty; give the id of an agent"),
        (["a", 3], "goto[1] is 3; give the id of an agent or Send(receiver, context, task)"),
        ([END], "goto[0] is END; give the id of an agent or Send(receiver, context, task)"),
        ([["a"]], "goto[0] is ['a']; give the id of an agent or Send(receiver, context, task)"),
        (b"a", "goto[0] is 97; give the id of an agent or Send(receiver, context, task)"),
        ([Send("a", task=3)], "goto[0].task is 3; give a str"),  # type: ignore[arg-type]
        ([Send("a", "n=1")], "goto[0].context is 'n=1'; give a dict of names to values"),  # type: ignore[arg-type]
        (
            [Send("a", {"_handoff_from": "b"})],
            "goto[0].context sets '_handoff_from', which only Changeover writes; rename it",
        ),
    ],
)
def test_an_invalid_branch_is_refused_with_its_place(goto: Any, words: str):
    assert complaint(Command(goto)) == words


def test_one_invalid_branch_refuses_the_whole_command():
    assert complaint(Command([Send("a"), Send("b", {"n": object()}), Send("c")])).startswith("goto[1].context['n'] is ")


# For whom the message is


@pytest.mark.parametrize("goto", [None, END, Send("writer"), ["writer", "editor"]])
def test_a_message_without_a_receiver_is_refused_and_not_lost(goto: Any):
    assert complaint(Command(goto, message="Write it.")) == (
        "message needs a goto to one agent; with Send(…), give each its task"
    )


@pytest.mark.parametrize("message", [3, None, ["Write", "it"]])
def test_a_message_is_a_text(message: Any):
    assert complaint(Command("writer", message=message)).startswith("message is ")


# What it adds


def test_an_update_adds_context_artifacts_and_workflow_state():
    update = {
        "context": {"lead": 7, "tags": ["new"]},
        "artifacts": {"draft": "file://draft.md", "report": None},
        "workflow_state": {"phase": "writing", "next": "review", "done": ["research"], "remaining": ["review"]},
    }
    for goto in ("editor", None, END, Send("a")):
        directive = directive_of(Command(goto, update))
        assert msgspec.to_builtins(directive).items() >= update.items()


def test_a_part_of_the_workflow_state_leaves_the_others_as_they_are():
    assert directive_of(Command(update={"workflow_state": {"phase": "review"}})).workflow_state == {"phase": "review"}


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"_handoff_from": "me"}, "update sets '_handoff_from', which only Changeover writes"),
        ({"it": object()}, "update['it'] is <object obj"),
        ({3: 1}, "update has the key 3; give names, each a str"),
        (None, "update is None; give a dict of names to values"),
        ([("context", {})], "update is [('context', {})]; give a dict of names to values"),
        ({"context": None}, "update['context'] is None; give a dict of names to values"),
        ({"context": {1: "a"}}, "update['context'] has the key 1; give names, each a str"),
        ({"artifacts": ["draft"]}, "update['artifacts'] is ['draft']; give a dict of names to values"),
        (
            {"artifacts": {"draft": 3}},
            "update['artifacts']['draft'] is 3; give a reference (str), or None while there is none",
        ),
        ({"artifacts": {"draft": {"at": "a.md"}}}, "update['artifacts']['draft'] is {'at': 'a.md'}; give a reference"),
        ({"artifacts": {None: "a.md"}}, "update['artifacts'] has the key None; give names, each a str"),
        ({"workflow_state": "review"}, "update['workflow_state'] is 'review'; give a dict of names to values"),
    ],
)
def test_an_invalid_update_is_refused_with_what_it_may_hold(update: Any, words: str):
    assert complaint(Command("writer", update)).startswith(words)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"fase": "review"}, "'fase', which is unknown"),
        ({"phase": 3}, "$.phase"),
        ({"next": None}, "$.next"),
        ({"done": "research"}, "$.done"),
        ({"remaining": ["review", 3]}, "$.remaining[1]"),
    ],
)
def test_an_invalid_workflow_state_is_refused_with_what_it_holds(state: dict[str, Any], words: str):
    said = complaint(Command(update={"workflow_state": state}))
    assert said.startswith("update['workflow_state'] ")
    assert words in said
    assert said.endswith("it holds phase: str, next: str, done: list[str], remaining: list[str]")


@pytest.mark.parametrize("name", sorted(METADATA))
def test_a_command_cannot_set_metadata(name: str):
    assert complaint(Command("writer", {"context": {name: "x", "lead": 7}})) == (
        f"update['context'] sets '{name}', which only Changeover writes; rename it"
    )


@pytest.mark.parametrize("goto", [None, "writer", [Send("writer")]])
@pytest.mark.parametrize("output", ["That is all.", ""])
def test_an_output_is_given_only_at_the_end(goto: Any, output: str):
    assert complaint(Command(goto, {"output": output})) == (
        "update holds 'output', which is the run's answer; give it only with goto=END"
    )


def test_an_output_is_a_text():
    assert complaint(Command(END, {"output": {"a": 1}})) == "update['output'] is {'a': 1}; give a str"


# What a log can keep


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        ((1, 2), [1, 2]),
        (2**70, 2**70),
        ({1: {2: "b"}}, {"1": {"2": "b"}}),
        (Lead(7, ("new",)), {"id": 7, "tags": ["new"]}),
        (Who.WRITER, "writer"),
        (Name("ana"), "ana"),
        (MappingProxyType({"a": MappingProxyType({"b": 1})}), {"a": {"b": 1}}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        ("grüß 🙂", "grüß 🙂"),
    ],
)
def test_a_value_becomes_plain_json(value: Any, kept: Any):
    directive = directive_of(Command([Send("a", {"v": value})], {"context": {"v": value}}))
    assert (directive.context, directive.sends[0].context) == ({"v": kept}, {"v": kept})
    assert msgspec.json.decode(msgspec.json.encode(directive), type=Directive) == directive


@pytest.mark.parametrize(
    "value",
    [
        object(),
        [threading.Lock()],
        LOOP,
        float("nan"),
        {"deep": [float("-inf")]},
        {(1, 2): "a"},
        "half \ud83d pair",
        {"half \ud83d pair": 1},
    ],
)
def test_a_value_that_json_cannot_hold_is_named(value: Any):
    said = complaint(Command("writer", {"context": {"fine": 1, "bad": value}}))
    assert said.startswith("update['context']['bad'] is ")
    assert "which JSON cannot hold (" in said


def test_a_value_that_raises_while_it_is_read_is_a_bad_command():
    class Broken(collections.UserDict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise RuntimeError("gone")

    assert "(gone)" in complaint(Command(update={"context": {"bad": Broken(a=1)}}))


@pytest.mark.parametrize(
    "command",
    [
        Command("half \ud83d pair"),
        Command("writer", message="half \ud83d pair"),
        Command(Send("a", task="half \ud83d pair")),
        Command(END, {"output": "half \ud83d pair"}),
        Command(update={"artifacts": {"draft": "half \ud83d pair"}}),
        Command(update={"artifacts": {"half \ud83d pair": None}}),
        Command(update={"context": {"half \ud83d pair": 1}}),
    ],
)
def test_a_lone_surrogate_is_refused_everywhere(command: Command):
    assert "which JSON cannot hold" in complaint(command)


def test_a_text_of_another_type_becomes_a_plain_one():
    directive = directive_of(Command(Who.WRITER, {"artifacts": {Name("draft"): Name("a.md")}}, Name("Write.")))
    assert directive == Directive(goto="writer", message="Write.", artifacts={"draft": "a.md"})
    texts = (directive.goto, directive.message, *directive.artifacts, *directive.artifacts.values())
    assert {type(text) for text in texts} == {str}


def test_any_mapping_may_be_an_update():
    context = MappingProxyType({"lead": 7})
    update = MappingProxyType({"context": context, "artifacts": MappingProxyType({"draft": None})})
    directive = directive_of(Command([Send("a", context)], update))
    assert directive == Directive(sends=(Errand("a", {"lead": 7}),), context={"lead": 7}, artifacts={"draft": None})


def test_a_directive_copies_the_values_of_its_command():
    tags, done, artifacts, branch = ["new"], ["research"], {"draft": "a.md"}, {"n": [1]}
    update = {"context": {"tags": tags}, "artifacts": artifacts, "workflow_state": {"done": done}}
    directive = directive_of(Command([Send("a", branch)], update))
    tags.append("old")
    done.append("review")
    artifacts.clear()
    branch["n"].append(2)
    update.clear()
    assert directive == Directive(
        sends=(Errand("a", {"n": [1]}),),
        context={"tags": ["new"]},
        artifacts={"draft": "a.md"},
        workflow_state={"done": ["research"]},
    )
