"""What happened: the only thing that is ever stored. An event once written is readable for ever; fields are only added.

Ids are positions. A run is the position of the UserSpoke that began it, a task the position of the event that gave
it to an agent, a call `<position of the reply>.<index>`; so nobody has to make them up, and a restart finds the same.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from changeover.facts import Fault, Mode, Usage
from changeover.guards.limits import Limits
from changeover.handoffs.context import Merge
from changeover.messages import Call

SCHEMA = 1
"""The version of this vocabulary; every entry says by which it was written."""


class Recordable(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """What every event has in common: its name in the log."""


class Started(Recordable, frozen=True, tag="started"):
    """A conversation began; `root` is itself unless it serves another."""

    root: str
    parent: str = ""
    depth: int = 0


class UserSpoke(Recordable, frozen=True, tag="user_spoke"):
    """A user said something; it waits until its run can begin."""

    text: str
    user: str = ""
    agent: str = ""
    context: dict[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    correlation_id: str = ""


class RunStarted(Recordable, frozen=True, tag="run_started"):
    """An agent took up what the user said; its own position is the id of the agent's task."""

    run: int
    agent: str


class ModelReplied(Recordable, frozen=True, tag="model_replied"):
    """A model answered, with text, calls, or both."""

    agent: str
    task: int
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    """None for one request of which nothing more is known."""


class ModelFailed(Recordable, frozen=True, tag="model_failed"):
    """One attempt at a model call failed; without `retry_at` it was the last."""

    agent: str
    task: int
    reason: str
    retry_at: float | None = None


class FunctionReturned(Recordable, frozen=True, tag="function_returned"):
    """A Function member gave its answer."""

    agent: str
    task: int
    text: str


class FunctionFailed(Recordable, frozen=True, tag="function_failed"):
    """A Function member raised."""

    agent: str
    task: int
    reason: str


class ToolStarted(Recordable, frozen=True, tag="tool_started"):
    """The intent of an at-most-once tool: from here on its effect may have happened."""

    call: str
    task: int


class ToolFinished(Recordable, frozen=True, tag="tool_finished"):
    """A tool gave a result, or an error that the model can act on."""

    call: str
    task: int
    text: str
    ok: bool = True
    unknown: bool = False
    """It was begun in an earlier life, and whether it took effect cannot be known."""
    dropped: tuple[str, ...] = ()


class CallRefused(Recordable, frozen=True, tag="call_refused"):
    """A call was not carried out, and the model is told why."""

    call: str
    task: int
    reason: str
    why: Literal["arguments", "tool", "receiver", "ignored", "limit"]
    receiver: str = ""


class HandoffOffered(Recordable, frozen=True, tag="handoff_offered"):
    """A sender asked that a receiver take over."""

    call: str
    task: int
    sender: str
    receiver: str
    message: str = ""
    mode: Mode = Mode.TRANSFER
    variables: dict[str, Any] = field(default_factory=dict)
    instructions: str = ""
    strategy: str = "full"
    merge: Merge = "merge"
    return_to: str = ""
    dropped: tuple[str, ...] = ()


class HandoffAccepted(Recordable, frozen=True, tag="handoff_accepted"):
    """The receiver took the task over: the sender's task ended, and a new one began at this position."""

    call: str
    task: int
    receiver: str


class RunCompleted(Recordable, frozen=True, tag="run_completed"):
    """The active agent's last text is the answer."""

    run: int


class RunFailed(Recordable, frozen=True, tag="run_failed"):
    """The run cannot go on; the conversation can."""

    run: int
    fault: Fault


class RunResumed(Recordable, frozen=True, tag="run_resumed"):
    """A run that had failed tries its failed step again."""

    run: int


class Unreadable(Struct, frozen=True, gc=False):
    """An event that a newer version wrote, kept as it is: whoever meets it leaves the conversation alone."""

    tag: str
    raw: bytes


Event = (
    ModelReplied
    | HandoffOffered
    | HandoffAccepted
    | ToolFinished
    | RunStarted
    | RunCompleted
    | UserSpoke
    | CallRefused
    | Started
    | ModelFailed
    | FunctionReturned
    | FunctionFailed
    | ToolStarted
    | RunFailed
    | RunResumed
)
"""What this version can write."""


class Entry(Struct, gc=False):
    """One append: the outcome of one command or one input, and the decisions that follow from it at once."""

    conversation: str
    root: str
    position: int
    cause: str
    """The id of the command whose outcome this is, or the key of an input; recorded once per conversation."""
    at: float
    events: tuple[Event | Unreadable, ...]
    seq: int = 0
    """Where its first event stands among all events of the root's tree; the log counts."""
    schema: int = SCHEMA
