"""Ids: the only place that builds or reads an id.

Nothing is drawn at random: the position of an event in its log names what the event began, so every process that folds
the same log finds the same ids.

Across conversations: `ada` is a root, `ada/3.0` the conversation of a delegate, `ada@1` a run, `ada#2` a task,
`ada:3.0` a handoff (and its ticket), `ada:3.0:9f2c` the request for an approval. Inside a conversation: `3.0` is the
first call of the reply at position 3, `3.0.1` a branch of it, `3.0+1` the offer to the next receiver. A mark behind a
call names the command that is about it, see `Mark`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

FIRST_TASK = 2
"""Position of the first task in every conversation: behind `Started` and `UserSpoke`."""
DEFAULT_TEAM = "default"
"""The name of a team that declares none; conversations without a recorded team belong to it."""
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The form of the id of a member, a workflow or a step."""
LONGEST_KEY = 512
"""Bytes of a caller's key that the log keeps as they are; a longer key is hashed."""


class Mark:
    """What a command does about the call whose id precedes the mark."""

    SEARCH = "@"
    """Find a receiver."""
    PACK = "%"
    """Make the context that travels."""
    QUESTION = "^"
    """Ask the receiver for its answer."""
    CHECK = "?"
    """Find out whether a person must approve."""
    DECISION = "!"
    """Wait for a person's decision."""
    RECALL = "~"
    """Cancel a delegate."""
    CLEANUP = "<"
    """Clean up after a rollback; the attempt follows."""
    FOLLOW_UP = ">"
    """Call on_accepted after an acceptance; the attempt follows."""
    RETRY = "+"
    """Offer the task to the next receiver; the number of the retry follows."""
    TOPIC = "="
    """Something beside the call itself; its name follows, see `topic_id`."""


class Topic:
    """The suffix after `Mark.TOPIC` when a result or a task is judged."""

    RESULT = "result"
    REPAIR = "repair"
    """A person's second answer, asked for and judged."""
    END = "end"
    TIER = "tier"


_MARKS = re.compile(r"[+=?!^~%<>@]")


# Conversations


def child_id(conversation: str, call: str) -> str:
    """The conversation of the delegate that a call began."""
    return f"{conversation}/{call}"


def split_child(conversation: str) -> tuple[str, str]:
    """The parent of a delegate's conversation, and the call that began it; ("", id) for a root."""
    parent, _, call = conversation.rpartition("/")
    return parent, call


def parent_of(conversation: str) -> str:
    """The conversation that delegated to this one; "" for a root."""
    return conversation.rpartition("/")[0]


def root_of(conversation: str) -> str:
    """The root of a conversation's tree."""
    return conversation.partition("/")[0]


def is_root(conversation: str) -> bool:
    """True if the conversation is not a delegate's."""
    return "/" not in conversation


def descent(conversation: str) -> list[list[int]]:
    """The calls that lead from the root of a tree to a conversation, each as its `call_path`; empty for a root."""
    return [call_path(call) for call in conversation.split("/")[1:]]


def below(conversation: str) -> str:
    """The prefix of the ids of all conversations below this one."""
    return f"{conversation}/"


# Runs, tasks, handoffs, requests, events


def run_id(conversation: str, position: int) -> str:
    return f"{conversation}@{position}"


def split_run(run: str) -> tuple[str, str]:
    """The conversation of a run and the position of its input; the position is "" if this is not the id of a run."""
    conversation, _, position = run.partition("@")
    return conversation, position


def task_id(conversation: str, position: int | str) -> str:
    return f"{conversation}#{position}"


def split_task(task: str) -> tuple[str, str]:
    """The conversation of a task, and its position there."""
    conversation, _, position = task.rpartition("#")
    return conversation, position


def handoff_id(conversation: str, call: str | int) -> str:
    """The id of a handoff and of its ticket; of a message that waits for a worker, by its position."""
    return f"{conversation}:{call}"


def split_handoff(handoff: str) -> tuple[str, str]:
    """The conversation in which a handoff was offered, and its call."""
    conversation, _, call = handoff.rpartition(":")
    return conversation, call


def handoff_range(conversation: str) -> tuple[str, str]:
    """The smallest string that may begin a handoff of this conversation, and the smallest beyond all of them."""
    return f"{conversation}:", f"{conversation};"


def conversation_of(id: str) -> str:
    """The conversation of a handoff, a ticket or a request."""
    return id.partition(":")[0]


def request_id(conversation: str, call: str, digest: str) -> str:
    """A request for a person's decision: another digest is another request."""
    return f"{conversation}:{call}:{digest}"


def split_request(request: str) -> tuple[str, str] | None:
    """The conversation and the call of a request; None if this is not the id of a request."""
    parts = request.split(":")
    return (parts[0], parts[1]) if len(parts) == 3 else None


def event_id(conversation: str, position: int) -> str:
    return f"{conversation}:{position}"


def effect_key(conversation: str, command: str) -> str:
    """The idempotency key of an effect: the same over retries and restarts."""
    return f"{conversation}:{command}"


def cleanup_key(handoff: str) -> str:
    """The idempotency key of the clean-up after a rollback: the same for all attempts."""
    return f"{handoff}{Mark.CLEANUP}"


def follow_up_key(handoff: str) -> str:
    """The idempotency key of what follows an acceptance: the same for all attempts."""
    return f"{handoff}{Mark.FOLLOW_UP}"


# Calls and the commands about them


def call_id(reply: int | str, index: int) -> str:
    """A call of the reply at this position; of a call, one of its branches."""
    return f"{reply}.{index}"


def branching_call(branch: str) -> str:
    """The call that a branch belongs to."""
    return branch.rpartition(".")[0]


def reply_of(call: str) -> str:
    """The position of the reply that holds a call."""
    return call.partition(".")[0]


def call_path(call: str) -> list[int]:
    """The position of the reply, the number of the call in it, and the number of the branch, as far as there are."""
    return [int(number) for number in call_of(call).split(".")]


def command_id(call: str, mark: str) -> str:
    return f"{call}{mark}"


def is_callback(command: str) -> bool:
    """True if a command calls a function of a handoff's declaration."""
    return Mark.CLEANUP in command or Mark.FOLLOW_UP in command


def topic_id(call: str | int, topic: str) -> str:
    """A request or a judgement beside the call itself: its result, the end of the run, a permission, a rule."""
    return f"{call}={topic}"


def topic_of(id: str) -> str:
    """The topic of a request or a judgement; "" for a call itself."""
    return id.partition(Mark.TOPIC)[2]


def call_of(id: str) -> str:
    """The call that a command, an offer or a request is about: all that stands before the first mark."""
    return _MARKS.split(id, maxsplit=1)[0]


def offer_of(command: str) -> str:
    """The offer that a question to a receiver, a delegate or its recall is about."""
    return command.rstrip(Mark.QUESTION + Mark.RECALL)


def next_offer(offer: str) -> str:
    """The id of the same call's offer to the next receiver."""
    times = call_of(offer.partition(Mark.RETRY)[2])
    return f"{call_of(offer)}{Mark.RETRY}{int(times) + 1 if times.isdigit() else 1}"


# Causes: a conversation records one entry for each


def intent_cause(command: str) -> str:
    """The intent of a command that must be performed at most once."""
    return f"{command}:begun"


def input_cause(kind: str, position: int) -> str:
    """An input without a key, by the position at which it is recorded."""
    return f"{kind}@{position}"


def claim_cause(kind: str, token: str) -> str:
    """An entry that is recorded once for each claim of a ticket."""
    return f"{kind}:{token}"


def key_cause(key: str) -> str:
    """The caller's key; never the id of a command, whatever the caller chooses."""
    # Databases index the cause: an index limits its length, and PostgreSQL does not store every character.
    whole = key.encode("utf-8", "surrogatepass")
    return f"key:{key if len(whole) <= LONGEST_KEY and key.isprintable() else sha256(whole).hexdigest()}"


# Claims and contexts


def claim_token(worker: str, number: str) -> str:
    """The token of one claim: the worker's name and a number of its own, in characters that every store keeps."""
    return f"{worker}#{number}".replace("\0", "\ufffd")


def worker_of(token: str) -> str:
    """The name of the worker that holds a token."""
    return token.rpartition("#")[0] or token


def queue_topic(agent: str) -> str:
    """The topic on which a store announces tickets of an agent; no conversation has this id."""
    return f"%{agent}"


def bus_topic(team: str) -> str:
    """The topic on which a store announces events and schedules of a team; no conversation has this id."""
    return f"&{team}"


_HAPPENING = "happening-"


def happening_id(delivery: str) -> str:
    """The id of the conversation that starts with an event of the team's own conversations, by the delivery's key."""
    return f"{_HAPPENING}{sha256(delivery.encode()).hexdigest()[:32]}"


def is_of_happening(conversation: str) -> bool:
    """True if an event of the team's own conversations started the tree of this conversation."""
    return conversation.startswith(_HAPPENING)


def context_id(body: str) -> str:
    """A stored context: the same text always has the same id."""
    # A lone surrogate cannot be encoded as UTF-8, but its text still needs an id.
    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# Traces: as in the W3C header `traceparent`


@lru_cache(maxsize=1024)
def span_id(what: str) -> str:
    """The span of a run, a task, a handoff or a wait, by its id: every process finds the same."""
    return sha256(what.encode("utf-8", "surrogatepass")).hexdigest()[:16]


NO_SPAN = "0" * 16
_TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def trace_context(trace: str, span: str = NO_SPAN, sampled: bool = True) -> str:
    """A `traceparent`; without a span it is the beginning of the trace."""
    return f"00-{trace}-{span}-{'01' if sampled else '00'}"


def at_span(trace_context: str, what: str) -> str:
    """The `traceparent` of the span of `what` in the same trace."""
    return f"{trace_context[:36]}{span_id(what)}{trace_context[52:]}"


@lru_cache(maxsize=1024)
def split_trace(trace_context: str) -> tuple[str, str, bool]:
    """The trace, the span ("" at the beginning of the trace), and True if it is sampled; ("", "", False) if the text is
    no `traceparent`."""
    if (found := _TRACE.fullmatch(trace_context)) is None:
        return "", "", False
    trace, span, flags = found.groups()
    return trace, "" if span == NO_SPAN else span, bool(int(flags, 16) & 1)
