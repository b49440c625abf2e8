"""A process that works on tickets: `python -m tests.stores.worker`."""

import asyncio
import sys
import time

from changeover.errors import ClaimLost
from changeover.relay.events import Entry, Started, UserSpoke
from changeover.relay.ports.log import Head
from changeover.relay.ports.queue import Claim, Take, Taken
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, open_log
from tests.stores.tickets import Scribe, ticket


async def work(url: str, name: str, lease: float) -> None:
    """Take what there is until nothing is left; say what was finished here."""
    log = open_log(Store(url))
    print("ready", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(_work(log, f"{name}-{number}", lease) for number in range(3)))
    await log.close()


async def ring(url: str) -> None:
    """Put a ticket whenever that is asked for; say when it was there."""
    log = open_log(Store(url))
    scribe = Scribe(log, "rings")
    await scribe.write()
    print("ready", flush=True)
    while sys.stdin.readline().strip():
        await scribe.write(ticket(f"t{scribe.end}"))
        print(time.time(), flush=True)
    await log.close()


async def _work(log: SqlLog, name: str, lease: float) -> None:
    number = 0
    while await log.queue.tickets():
        number += 1
        for taken in await log.queue.take(Take(["a", "b"], f"{name}-{number}", lease, 3, 1_000_000, 0.0)):
            try:
                await log.append(_done(taken), _gone(taken), None, Claim(taken.ticket.id, taken.token))
                print(taken.ticket.id, flush=True)
            except ClaimLost:
                pass


def _done(taken: Taken) -> Entry:
    """What nobody but the holder of the claim may write: nothing else would keep two from doing it."""
    conversation = f"{taken.ticket.id} by {taken.token}"
    return Entry(conversation, conversation, 0, "done", 1.0, (Started(), UserSpoke("done")))


def _gone(taken: Taken) -> Head:
    return Head("completed", "front", False, None, (), (), (taken.ticket.id,))


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], float(sys.argv[3])) if sys.argv[2:] else ring(sys.argv[1]))
