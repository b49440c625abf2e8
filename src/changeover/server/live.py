"""Live: conversations as they go on, for any number of readers in this process.

A channel reads the log of one root once, however many clients follow it, and encodes each event once. Every client has
an outbox with an end: a client that does not keep up is cut off with a notice, and catches up later by `seq`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain

import msgspec
from msgspec import Struct

from changeover.errors import EngineError, StoreClosed, StoreUnavailable
from changeover.ids import below, root_of, task_id
from changeover.relay.events import Entry, ModelFailed, ModelReplied, RunCancelled, RunCompleted, RunFailed
from changeover.relay.history import fold_recorded
from changeover.relay.ports.log import Log
from changeover.relay.state import State
from changeover.relay.stream import Delta, Recorded, Replies, TextDelta
from changeover.server.problems import Problem
from changeover.server.wire import shown

logger = logging.getLogger("changeover.server")

MOST_WAITING = 2_000
"""Frames that may wait for a client that reads slowly."""
SLOW_AFTER = 5.0
"""A client whose outbox is full is slow if it has taken nothing for this many seconds; a quick client may have a long
history to catch up with."""
SILENCE = 15.0
"""Seconds after which a silent stream says that it is alive, so that proxies keep it open."""
EXPECTED = 10.0
"""Seconds for which a conversation without readers is listened to: a reader is about to come, or to come back."""
ENDS_OF_REPLIES = (ModelReplied, ModelFailed, RunCompleted, RunFailed, RunCancelled)
RETRY = 0.5
"""Seconds before a channel reads again after the store could not be read."""

RECHECK = 30.0
"""Seconds between two checks of the tokens of connected clients."""

OutcomeOf = Callable[[State, int], Struct]
"""The outcome of a run for clients."""


class Frame(Struct, frozen=True, gc=False):
    """A message to clients."""

    kind: str
    data: bytes
    """A JSON object, which is not empty."""
    conversation: str = ""
    seq: int = 0
    """The seq of an event, and of the event that ended a run; 0 for what is not recorded."""

    def as_sse(self) -> bytes:
        """The frame as a server-sent event. Only events have an id: a client resumes after the last one."""
        id = b"id: %d\n" % self.seq if self.kind == "event" else b""
        return b"%sevent: %s\ndata: %s\n\n" % (id, self.kind.encode(), self.data)

    @lru_cache(maxsize=16)  # noqa: B019 - of the last frames only: many clients are sent one frame, one after another
    def as_json(self) -> str:
        """The frame as a message of a WebSocket."""
        data = self.data.decode()
        if self.kind == "event":
            conversation = msgspec.json.encode(self.conversation).decode()
            return f'{{"kind":"event","conversation":{conversation},"event":{data}}}'
        return f'{{"kind":"{self.kind}",{data[1:]}'


class Spoken(Struct, frozen=True):
    """A piece of a reply while its model writes it; the recorded reply replaces all pieces of its command."""

    conversation: str
    agent: str
    task: str
    command: str
    attempt: int
    """A higher attempt starts the text again."""
    text: str


class Notice(Struct, frozen=True):
    """A message to a client about its connection."""

    code: str
    message: str
    conversation: str = ""


def event_frame(record: Recorded) -> Frame:
    """A recorded event."""
    return Frame("event", msgspec.json.encode(shown(record)), record.conversation, record.seq)


def delta_frame(delta: Delta, task: str = "") -> Frame:
    """A piece of a reply."""
    kind = "text" if isinstance(delta, TextDelta) else "thinking"
    spoken = Spoken(delta.conversation, delta.agent, task, delta.command, delta.attempt, delta.text)
    return Frame(kind, msgspec.json.encode(spoken), delta.conversation)


def notice(code: str, message: str, conversation: str = "") -> Frame:
    """A notice."""
    return Frame("notice", msgspec.json.encode(Notice(code, message, conversation)), conversation)


SLOW = notice("slow", "you read too slowly and were cut off; connect again with the seq of your last event")
LAPSED = notice("unauthorized", "your token has expired or was revoked")
STOPPING = notice("stopping", "the server stops; connect again with the seq of your last event")


class Outbox:
    """Frames on their way to one client."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._taken_at = self._loop.time()
        self.over = False
        """True if no frame is added any more."""

    def put(self, frame: Frame) -> None:
        if len(self._frames) >= MOST_WAITING and self._loop.time() - self._taken_at > SLOW_AFTER:
            self._frames.clear()
            self.end(SLOW)
        elif not self.over:
            self._frames.append(frame)
            self._news.set()

    def end(self, last: Frame | None = None) -> None:
        """Add a last frame, if there is one."""
        if not self.over and last is not None:
            self._frames.append(last)
        self.over = True
        self._news.set()

    async def take(self, keep_alive: bool = False) -> list[Frame] | None:
        """All frames that wait; None at the end. With `keep_alive`, none if there was none for SILENCE."""
        if not self._frames and not self.over:
            if keep_alive:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SILENCE):
                        await self._news.wait()
            else:  # without a timer, which would cost 3 µs for each frame of each client
                await self._news.wait()
        self._news.clear()
        self._taken_at = self._loop.time()
        frames = list(self._frames)
        self._frames.clear()
        return None if self.over and not frames else frames


class Subscription:
    """One client's view of a channel: a conversation and its delegates, after a seq."""

    def __init__(self, outbox: Outbox, conversation: str, after: int) -> None:
        self.outbox = outbox
        self._conversation, self._after, self._below = conversation, after, below(conversation)

    def wants(self, frame: Frame) -> bool:
        if frame.kind == "finished":  # also if the client has the event that ended the run, but perhaps not this
            return frame.conversation == self._conversation and frame.seq >= self._after
        if frame.kind == "event" and frame.seq <= self._after:
            return False
        return frame.conversation in ("", self._conversation) or frame.conversation.startswith(self._below)


class Channel:
    """Reads the log of one root, and passes on what is recorded, and what models write meanwhile."""

    def __init__(self, log: Callable[[], Log], root: str, outcome: OutcomeOf) -> None:
        self._log, self._root, self._outcome = log, root, outcome
        self._loop = asyncio.get_running_loop()
        self._states: dict[str, State] = {}
        self._replies = Replies()
        self._seq = 0
        self._frames: list[Frame] = []
        self._spoken: dict[str, list[Frame]] = {}
        """What models have written since their last recorded reply, by conversation."""
        self._subscriptions: list[Subscription] = []
        self._task = asyncio.ensure_future(self._read())

    @property
    def is_read(self) -> bool:
        return bool(self._subscriptions)

    @property
    def over(self) -> bool:
        """True if it has stopped reading, because the conversation was removed or the store failed."""
        return self._task.done()

    def join(self, subscription: Subscription) -> None:
        """Give a client what was recorded and written so far, and from now on what follows."""
        for frame in chain(self._frames, *self._spoken.values()):
            if subscription.wants(frame):
                subscription.outbox.put(frame)
        self._subscriptions.append(subscription)

    def leave(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """Stop reading."""
        self._task.cancel()

    async def _read(self) -> None:
        with self._log().deltas.listening(self._root, self._hear):
            while True:
                try:
                    async for entry in self._log().changes(self._root, self._seq):
                        self._take(entry)
                    return self._end(STOPPING)
                except StoreClosed:
                    return self._end(STOPPING)
                except StoreUnavailable:
                    self._pass(notice("store-unavailable", "the store cannot be reached; the stream goes on with it"))
                    await asyncio.sleep(RETRY)
                except EngineError as error:  # it was removed
                    return self._end(notice("gone", str(error), self._root))
                except Exception:
                    logger.exception("the events of %s cannot be passed on", self._root)
                    return self._end(notice("failed", "the server failed; read the events instead", self._root))

    def _take(self, entry: Entry) -> None:
        state = self._states.setdefault(entry.conversation, State(entry.conversation))
        for record in fold_recorded(state, entry):
            self._replies.note(record)
            self._keep(event_frame(record))
            if isinstance(record.event, ENDS_OF_REPLIES):
                self._spoken.pop(entry.conversation, None)
            if isinstance(record.event, RunCompleted | RunFailed | RunCancelled):
                data = msgspec.json.encode(self._outcome(state, record.event.run))
                self._keep(Frame("finished", data, entry.conversation, record.seq))
        self._seq = state.seq

    def _keep(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._pass(frame)

    def _pass(self, frame: Frame) -> None:
        for each in self._subscriptions:
            if each.wants(frame):
                each.outbox.put(frame)

    def _end(self, last: Frame) -> None:
        for each in self._subscriptions:
            each.outbox.end(last)

    def _hear(self, delta: Delta) -> None:
        """Take a delta, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._speak, delta)

    def _speak(self, delta: Delta) -> None:
        if not self._replies.has(delta):
            state = self._states.get(delta.conversation)
            frame = delta_frame(delta, task_id(state.id, state.task) if state else "")
            self._spoken.setdefault(delta.conversation, []).append(frame)
            self._pass(frame)


class Live:
    """The channels and clients of a server."""

    def __init__(self, log: Callable[[], Log], outcome: OutcomeOf) -> None:
        self._log, self._outcome = log, outcome
        self._channels: dict[str, Channel] = {}
        self._outboxes: dict[Outbox, str] = {}
        """The clients that are connected, with the ids of their tokens."""
        self._vetting: asyncio.Task[None] | None = None
        self.stopping = False
        """True once the server takes no new work."""
        self._left = asyncio.Event()
        """Set while no client is connected."""
        self._left.set()

    @contextmanager
    def connected(self, token: str = "") -> Iterator[Outbox]:
        """The outbox of a client, for as long as it is connected and the token with this id is valid. Raises Problem if
        the server stops."""
        if self.stopping:
            raise Problem(503, "the server stops", kind="stopping")
        outbox, traffic = Outbox(), self._log().traffic
        self._outboxes[outbox] = token
        traffic.readers += 1
        self._left.clear()
        if token and self._vetting is None:
            self._vetting = asyncio.ensure_future(self._vet())
        try:
            yield outbox
        finally:
            del self._outboxes[outbox]
            traffic.readers -= 1
            if not self._outboxes:
                self._left.set()
            if self._vetting is not None and not any(self._outboxes.values()):
                self._vetting.cancel()
                self._vetting = None

    async def _vet(self) -> None:
        """Cut off clients whose tokens have expired or were revoked since they connected."""
        while True:
            await asyncio.sleep(RECHECK)
            with suppress(EngineError):  # while the store is away, nothing is recorded that they could read
                now = time.time()
                lapsed = {each.id for each in await self._log().tokens.all() if each.lapse(now)}
                for outbox in [each for each, token in self._outboxes.items() if token in lapsed]:
                    outbox.end(LAPSED)

    @contextmanager
    def subscribed(self, outbox: Outbox, conversation: str, after: int = 0) -> Iterator[None]:
        """Send a conversation with its delegates to a client, from the event after this seq on."""
        root = root_of(conversation)
        channel = self._channel(root)
        channel.join(subscription := Subscription(outbox, conversation, after))
        try:
            yield
        finally:
            channel.leave(subscription)
            self._close_later(root, channel)

    def expect(self, root: str) -> None:
        """Listen to a conversation that is about to begin: its first reader then has all that its model writes."""
        self._close_later(root, self._channel(root))

    def _channel(self, root: str) -> Channel:
        if (channel := self._channels.get(root)) is None or channel.over:
            channel = self._channels[root] = Channel(self._log, root, self._outcome)
        return channel

    def _close_later(self, root: str, channel: Channel) -> None:
        """Close a channel that has no readers then; a reader that connects again gets the whole reply under way."""
        if not self.stopping:
            asyncio.get_running_loop().call_later(EXPECTED, self._close_unread, root, channel)

    def _close_unread(self, root: str, channel: Channel) -> None:
        if not channel.is_read and self._channels.get(root) is channel:
            del self._channels[root]
            channel.close()

    async def stop(self, grace: float) -> None:
        """Tell all clients that the server stops, and wait until their streams have ended, at most `grace` seconds."""
        self.stopping = True
        for outbox in list(self._outboxes):
            outbox.end(STOPPING)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._left.wait()
        for root, channel in list(self._channels.items()):
            self._close_unread(root, channel)
