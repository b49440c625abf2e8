"""The process from which commands are forked: `python tests/cli/forking.py SOCKET`.

It has imported everything, which takes most of a command's time. A client sends an order and three open files, and
receives the id of the process that runs it as `python -m changeover` would, and then its exit code.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pkgutil import walk_packages

IMPORTED = (
    "changeover.stores.sql.log",
    "changeover.stores.sql.dialects.sqlite",
    "changeover.stores.views",
    "pydantic_ai.tools",
)


def furnish() -> None:
    """Import everything that commands import when they run."""
    cli = import_module("changeover.cli")
    for name in (*IMPORTED, *(module.name for module in walk_packages(cli.__path__, "changeover.cli."))):
        import_module(name)
    with suppress(SystemExit), redirect_stdout(StringIO()):
        import_module("changeover.cli.commands").app(["conversations", "--help"])  # typer imports lazily too
    import_module("changeover.handoffs.tokens").load()
    import_module("changeover.stores.sql.statements").statements("sqlite")


def next_order(address: str) -> socket.socket:
    """Fork a process for each client, and return in it; exit when the process that started this one is gone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return connection
        connection.close()
    sys.exit()


def carry_out(connection: socket.socket) -> None:
    """Fork the process that runs the order, and return in it; the parent sends its exit code."""
    text, files, *_ = socket.recv_fds(connection, 65_536, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(65_536)
    order = json.loads(text)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        for file in files:
            os.close(file)
        connection.sendall(f"{pid}\n".encode())
        connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())
        os._exit(0)
    connection.close()
    for stream, file in enumerate(files):
        os.dup2(file, stream)
        os.close(file)
    os.chdir(order["at"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.path[0] = order["at"]
    sys.argv[1:] = order["args"]


def run() -> int:
    """The exit code of the command."""
    try:
        runpy.run_module("changeover", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def leave() -> None:
    """Exit without unloading modules, which takes longer than running a command."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    code = 1  # unless it returns
    atexit.register(leave)  # registered first, so called last
    furnish()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that have sent the exit code need no wait
    carry_out(next_order(sys.argv[1]))
    code = run()
