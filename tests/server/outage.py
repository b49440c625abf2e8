"""A way to PostgreSQL that can be cut: clients connect to a socket of ours, which passes everything on."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

NAME = ".s.PGSQL.5432"


class Wire:
    """Passes bytes on until it is cut, and again once it is mended."""

    def __init__(self, folder: Path, target: str) -> None:
        self._path, self._target = str(folder / NAME), target
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Take connections."""
        Path(self._path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Break all connections, and take no others."""
        Path(self._path).unlink(missing_ok=True)
        self._close(self._listener)
        for each in self._open:
            self._close(each)
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._target)
                self._open += [here, there]
                for source, goal in ((here, there), (there, here)):
                    threading.Thread(target=self._pass, args=(source, goal), daemon=True).start()

    def _pass(self, source: socket.socket, goal: socket.socket) -> None:
        with suppress(OSError):
            while some := source.recv(65536):
                goal.sendall(some)
        self._close(source)
        self._close(goal)

    def _close(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextmanager
def wired(store: str, folder: Path) -> Iterator[tuple[str, Wire]]:
    """The address of a PostgreSQL store by way of a wire."""
    host = str(conninfo_to_dict(store)["host"])
    wire = Wire(folder, f"{host}/{NAME}")
    try:
        yield store.replace(host, str(folder)), wire
    finally:
        wire.cut()
