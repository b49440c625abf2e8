"""A process that appends to the same conversations as others: `python -m tests.stores.fighter`."""

import asyncio
import sys

from changeover.errors import Conflict, Owned
from changeover.relay.events import Entry, Started, UserSpoke
from changeover.relay.ports.log import Head
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, open_log

SHARED = Head("running", "front", False)
MINE = Head("running", "front", True)


async def fight(url: str, name: str, head: Head) -> None:
    """Record outcome 0 to 19 in each of five conversations, against everybody else; say which were ours."""
    log = open_log(Store(url, 1.0))
    print("ready", flush=True)
    sys.stdin.readline()
    won = await asyncio.gather(*(_fight_for(log, f"c{number}", name, head) for number in range(5)))
    for conversation, causes in enumerate(won):
        print(f"c{conversation}", *causes, flush=True)
    await log.close()


async def _fight_for(log: SqlLog, conversation: str, name: str, head: Head) -> list[str]:
    won = []
    for cause in map(str, range(20)):
        while await log.find(conversation, cause) is None:
            entries = await log.read(conversation)
            end = entries[-1].position + len(entries[-1].events) if entries else 0
            spoken = UserSpoke(f"{name} says {cause}")
            events = (spoken,) if end else (Started(), spoken)
            try:
                await log.append(Entry(conversation, conversation, end, cause, 1.0, events), head)
                won.append(cause)
            except Conflict:
                await asyncio.sleep(0)
            except Owned:
                await asyncio.sleep(0.02)
    return won


if __name__ == "__main__":
    asyncio.run(fight(sys.argv[1], sys.argv[2], MINE if sys.argv[3:] else SHARED))
