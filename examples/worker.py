"""A queue: a program submits work to a store, and worker processes do it, even if one of them is killed.

Workers serve the archive, an agent with `pull=True`: a handoff to it waits until a worker claims it. Here the program
submits a package to a SQLite file. The first worker claims it and is killed in the middle; when its lease has expired,
the second worker claims it and finishes. The program gets the result. The workers are the command `changeover worker`;
the lines with a time are their output. Replies are scripted: no key, no network.

    python examples/worker.py
"""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from pathlib import Path
from tempfile import TemporaryDirectory

from changeover import Agent, Store, Team
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.testing import ScriptedModel, says

QUESTION = "Which invoices has order 1042?"


def desk() -> Team:
    """The team of this program and of its workers, on the store that they share."""
    script = {"archive": [says("Two, both of Monday.")]}
    archive = Agent("archive", pull=True, instructions="Look things up in old papers.")
    store = Store(os.environ["DESK_STORE"], lease=1)
    return Team([archive], model=ScriptedModel(script, latency=2.0), store=store)


async def start_worker(name: str) -> Process:
    """Start a process that serves the archive until it is stopped."""
    worker = ["worker", f"{__file__}:desk", "--agents", "archive", "--lease", "1", "--name", name]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "changeover", *worker)


async def leave_and_wait() -> None:
    """Submit a package, kill one worker that works on it, and wait for the result."""
    async with desk() as team:
        ticket = await team.submit(HandoffPackage(Task(QUESTION), metadata=Metadata(receiver="archive")), key="1042")
        print(f"left for the archive: {QUESTION}", flush=True)
        first = await start_worker("first")
        while True:
            await asyncio.sleep(0.05)
            if (await team.status(ticket)).owner:
                break
        first.kill()
        print("killed: the first, which had it", flush=True)
        second = await start_worker("second")
        result = await team.result(ticket, timeout=30)
        second.terminate()
        await asyncio.gather(first.wait(), second.wait())
        print(f"{result.agent}: {result.result}")


def main() -> None:
    with TemporaryDirectory() as folder:
        os.environ["DESK_STORE"] = f"sqlite:///{Path(folder) / 'desk.db'}"
        asyncio.run(leave_and_wait())


if __name__ == "__main__":
    main()
