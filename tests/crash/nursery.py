"""Nursery: starts, stops and kills processes, and reads what they did."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.crash.notes import Notes
from tests.crash.worker import Order


class Worker:
    """A process that works."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._gone = False
        try:
            # A number may be given to another process as soon as this one is gone; a descriptor is not.
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._gone = True

    @property
    def alive(self) -> bool:
        return self._send(0)

    def kill(self) -> None:
        """Return when it is dead."""
        self._send(signal.SIGKILL)
        assert self.ended(10), f"process {self.pid} cannot be killed"

    def stop(self) -> None:
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def ended(self, within: float) -> bool:
        """Wait for its end."""
        return wait_for(lambda: not self.alive, within)

    def _send(self, number: int) -> bool:
        if self._gone:
            return False
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError:
            os.close(self._fd)
            self._gone = True
        return not self._gone


class Mother:
    """A process with everything imported, of which all others are forked."""

    def __init__(self, home: Path, within: Sequence[str] = ()) -> None:
        """`within` is a command that runs another one, such as in a network of its own."""
        self._errors = home / "errors"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*within, sys.executable, "-m", "tests.crash.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[2],
            )

    def bear(self, order: Order) -> Worker:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"no process was started: {self.complaints()}"
        return Worker(int(answer))

    def complaints(self) -> str:
        """What she and her children wrote to their standard error."""
        return self._errors.read_text()

    def leave(self) -> None:
        self._process.communicate()


class Nursery:
    """Where the processes of one test come from. Everything that they note is in `notes`."""

    def __init__(self, mother: Mother, home: Path) -> None:
        self._mother = mother
        self._said_before = len(mother.complaints())
        self.notes = Notes(home / "notes")
        self._workers: list[Worker] = []

    def start(self, order: Order) -> Worker:
        worker = self._mother.bear(msgspec.structs.replace(order, notes=str(self.notes.path)))
        self._workers.append(worker)
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in self._workers:
            worker.kill()
        if complaints := self._mother.complaints()[self._said_before :]:
            print(f"what the processes wrote:\n{complaints[-4000:]}")


def wait_for(condition: Callable[[], bool], within: float) -> bool:
    """Whether this came true in time."""
    until = time.monotonic() + within
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True
