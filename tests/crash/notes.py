"""Notes of processes: an append-only file of lines that survives the death of any process."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec


class Note(msgspec.Struct, omit_defaults=True):
    """One thing that happened in one process."""

    what: str
    """begin, end: an effect; result, error: what a caller got; wrong: what must not be; opened, stops, done: a life."""
    pid: int = 0
    at: float = 0.0
    """By the machine's own clock, which is the same for all processes."""
    key: str = ""
    """`conversation:command` of an effect, or the key of the message of a result."""
    kind: str = ""
    value: Any = None


class Notes:
    """The file. A line is written by one call, so that a process dies before it or after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._notes: list[Note] = []

    def write(self, what: str, key: str = "", kind: str = "", value: Any = None) -> None:
        line = msgspec.json.encode(Note(what, os.getpid(), time.monotonic(), key, kind, value)) + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def read(self, *kinds: str) -> list[Note]:
        """All of them in order, or those of these kinds."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new, end, _ = file.read().rpartition(b"\n")  # the last line may be half there
            self._read += len(new) + len(end)
            self._notes += [msgspec.json.decode(line, type=Note) for line in new.splitlines()]
        return [note for note in self._notes if not kinds or note.what in kinds]
