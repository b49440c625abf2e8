"""NotifiedDeltas: deltas for readers in other processes too, by PostgreSQL's notifications.

A process announces the trees that its readers read, and repeats that every few seconds. Other processes send only the
deltas of these trees. A process that connects asks all others to repeat their announcements.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
from msgspec import Struct
from msgspec.structs import replace

from changeover.errors import StoreUnavailable
from changeover.relay.stream import Delta, TextDelta, ThinkingDelta
from changeover.stores.deltas import Hear, LocalDeltas

logger = logging.getLogger("changeover.stores")

LARGEST = 7_900
"""Bytes of a notification; PostgreSQL takes less than 8,000."""
PAUSE = 0.03
"""Seconds between two rounds of deltas; deltas that come meanwhile are joined."""
RENEWAL = 4.0
"""Seconds after which a process repeats what its readers read."""
LAPSE = 3 * RENEWAL
"""Seconds after which a process stops sending to one that fell silent."""
MOST = 1_000
"""Deltas that may wait to be sent; more are dropped, and readers get the whole reply from the log."""
RETRY = 1.0
"""Seconds before a lost connection is set up again."""

# A database may hold several stores, in schemas of their own.
NAME = "SELECT 'changeover_' || md5(current_schema())"
NOTIFY = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"
READERS, PIECES = "_readers", "_pieces"
"""Suffixes of the two channels of a store. Only processes with readers listen to pieces."""


class Piece(Struct, frozen=True, array_like=True):
    """A delta on its way to other processes."""

    root: str
    thinking: bool
    text: str
    agent: str
    conversation: str
    command: str
    attempt: int
    part: int = 0
    """Tells apart the parts of a long text: PostgreSQL drops a repeated notification."""

    @property
    def source(self) -> tuple[Any, ...]:
        """The fields that must be equal so that the texts of pieces can be joined."""
        return self.root, self.thinking, self.agent, self.conversation, self.command, self.attempt

    def halves(self) -> list[Piece]:
        middle = len(self.text) // 2
        parts = (self.text[:middle], self.text[middle:]) if middle else ()
        return [replace(self, text=text, part=2 * self.part + side) for side, text in enumerate(parts, 1)]


class Announcement(Struct, frozen=True, array_like=True):
    """The trees that the readers of a process read from now on, or no longer read."""

    process: str
    roots: tuple[str, ...] = ()
    reads: bool = True
    asks: bool = False
    """True if all other processes have to announce now what their readers read."""

    def halves(self) -> list[Announcement]:
        middle = len(self.roots) // 2
        parts = (self.roots[:middle], self.roots[middle:]) if middle else ()
        return [replace(self, roots=roots) for roots in parts]


class NotifiedDeltas(LocalDeltas):
    """Deltas for all processes on a PostgreSQL store. Its thread starts when this process first sends or reads."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], shown: str) -> None:
        super().__init__()
        self._connect, self._shown = connect, shown
        self._process = uuid4().hex
        self._elsewhere: dict[str, dict[str, float]] = {}
        """The trees that other processes read; for each of these processes, until when that holds."""
        self._waiting: list[Piece] = []
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._closed = threading.Event()

    def wanted(self, root: str) -> bool:
        if self._thread is None:
            self._start()
        return root in self._elsewhere or super().wanted(root)

    def send(self, root: str, delta: Delta) -> None:
        super().send(root, delta)
        if root in self._elsewhere and len(self._waiting) < MOST:
            self._waiting.append(_piece(root, delta))
            self._ring()

    @contextmanager
    def listening(self, root: str, hear: Hear) -> Iterator[None]:
        try:
            with super().listening(root, hear):
                self._start()
                self._ring()
                yield
        finally:
            self._ring()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._ring()
        if self._thread is not None:
            self._thread.join()
        self._bell.close()
        self._rope.close()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._work, name="changeover-deltas", daemon=True)
                self._thread.start()

    def _ring(self) -> None:
        """Wake the thread."""
        with suppress(OSError):  # many rings wait already, or it is closed
            self._rope.send(b"!")

    def _work(self) -> None:
        while not self._closed.is_set():
            try:
                with self._connect() as connection:
                    self._exchange(Exchange(connection, self._bell, self._process))
            except (psycopg.Error, StoreUnavailable) as error:
                logger.warning("deltas of %s go to this process only: %s", self._shown, error)
                self._closed.wait(RETRY)

    def _exchange(self, exchange: Exchange) -> None:
        send_at = 0.0
        while not self._closed.is_set():
            now = time.monotonic()
            for piece in exchange.pieces():
                super().send(piece.root, _delta(piece))
            for announcement in exchange.announcements():
                self._note(announcement, now)
            exchange.announce(self.roots, now)
            if self._waiting and now >= send_at:
                waiting, self._waiting = self._waiting, []
                exchange.send(joined(waiting))
                send_at = now + PAUSE
            exchange.wait(send_at if self._waiting else now + RENEWAL)
            self._forget_silent(now)

    def _note(self, told: Announcement, now: float) -> None:
        for root in told.roots:
            if told.reads:
                self._elsewhere.setdefault(root, {})[told.process] = now + LAPSE
            elif (processes := self._elsewhere.get(root)) and processes.pop(told.process, None) and not processes:
                del self._elsewhere[root]

    def _forget_silent(self, now: float) -> None:
        for root, processes in list(self._elsewhere.items()):
            if all(until < now for until in processes.values()):
                del self._elsewhere[root]


class Exchange:
    """One connection, by which a process announces what it reads, and sends and receives pieces."""

    def __init__(self, connection: psycopg.Connection[Any], bell: socket.socket, process: str) -> None:
        self._connection, self._bell, self._process = connection, bell, process
        connection.execute("SET synchronous_commit = off")  # a notification is not stored
        named = connection.execute(NAME).fetchone()
        assert named is not None
        self._name: str = named[0]
        connection.execute(f"LISTEN {self._name}{READERS}")
        self._announced: set[str] = set()
        self._renew_at = 0.0
        self._heard: dict[str, list[str]] = {READERS: [], PIECES: []}
        self._notify(READERS, [Announcement(process, asks=True)])

    def wait(self, until: float) -> None:
        """Wait for a notification or the bell."""
        self._receive()
        if any(self._heard.values()):
            return  # they came while this process sent
        with DefaultSelector() as selector:
            selector.register(self._connection.fileno(), EVENT_READ)
            selector.register(self._bell, EVENT_READ)
            selector.select(max(0.0, until - time.monotonic()))
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        self._receive()

    def pieces(self) -> Iterator[Piece]:
        """The pieces that other processes have sent."""
        yield from _decoded(self._heard[PIECES], Piece)

    def announcements(self) -> Iterator[Announcement]:
        """The announcements of other processes."""
        for told in _decoded(self._heard[READERS], Announcement):
            if told.asks:
                self._renew_at = 0.0
            yield told

    def announce(self, roots: set[str], now: float) -> None:
        """Announce what this process reads, as far as it changed or has to be repeated."""
        if roots and not self._announced:
            self._connection.execute(f"LISTEN {self._name}{PIECES}")
        new = roots if now >= self._renew_at else roots - self._announced
        told = [
            Announcement(self._process, tuple(trees), reads)
            for trees, reads in ((new, True), (self._announced - roots, False))
            if trees
        ]
        self._notify(READERS, told)
        if self._announced and not roots:
            self._connection.execute(f"UNLISTEN {self._name}{PIECES}")
        self._announced = roots
        self._renew_at = now + RENEWAL if now >= self._renew_at else self._renew_at

    def send(self, pieces: Iterable[Piece]) -> None:
        """Send pieces to all processes with readers."""
        self._notify(PIECES, pieces)

    def _notify(self, channel: str, messages: Iterable[Piece | Announcement]) -> None:
        if payloads := [payload for message in messages for payload in fitting(message)]:
            self._connection.execute(NOTIFY, (f"{self._name}{channel}", payloads))

    def _receive(self) -> None:
        own = self._connection.info.backend_pid
        for notice in self._connection.notifies(timeout=0):
            if notice.pid != own:
                self._heard[notice.channel.removeprefix(self._name)].append(notice.payload)


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces with the texts of each source joined."""
    texts: dict[tuple[Any, ...], list[Piece]] = {}
    for piece in pieces:
        texts.setdefault(piece.source, []).append(piece)
    return [replace(same[0], text="".join(each.text for each in same)) for same in texts.values()]


def fitting(message: Piece | Announcement) -> Iterator[str]:
    """The message as JSON, in as many notifications as it takes; what cannot be divided further is dropped."""
    raw = msgspec.json.encode(message)
    if len(raw) <= LARGEST:
        yield raw.decode()
    else:
        for half in message.halves():
            yield from fitting(half)


def _decoded(heard: list[str], kind: type[Any]) -> Iterator[Any]:
    """The messages that were heard; a newer version may send what this one does not understand."""
    payloads = heard[:]
    heard.clear()
    for payload in payloads:
        with suppress(msgspec.MsgspecError):
            yield msgspec.json.decode(payload, type=kind)


def _piece(root: str, delta: Delta) -> Piece:
    text = delta.text.encode("utf-8", "replace").decode()  # a model may have written half a character
    thinking = isinstance(delta, ThinkingDelta)
    return Piece(root, thinking, text, delta.agent, delta.conversation, delta.command, delta.attempt)


def _delta(piece: Piece) -> Delta:
    kind = ThinkingDelta if piece.thinking else TextDelta
    return kind(piece.text, piece.agent, piece.conversation, piece.command, piece.attempt)
