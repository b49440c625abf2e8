"""What processes leave behind in a store when they die or are stopped at an awkward moment."""

import asyncio

from changeover.stores.sql.dialects.postgres import Postgres
from changeover.stores.store import Store, open_log
from tests.stores.entries import DONE, more, opening


async def test_a_message_left_for_a_process_that_had_just_finished_is_taken_up_by_whoever_comes_next(shared_store: str):
    worker, speaker, heir = (open_log(Store(shared_store)) for _ in range(3))
    await worker.append(opening(), DONE)
    # The speaker saw that the worker owned the conversation, and leaves word; then both die.
    await speaker.append(more(3), None)
    assert await heir.unfinished() == ["c"]
    for log in (worker, speaker, heir):
        await log.close()


async def test_a_process_that_is_stopped_in_mid_transaction_keeps_nobody_waiting(postgres: str):
    log = open_log(Store(postgres, lease=0.3))
    await log.append(opening(), DONE)
    stopped = Postgres(postgres, lease=0.3).connect()
    stopped.begin()
    stopped.run([("UPDATE conversations SET position = position WHERE id = %s RETURNING position", ("c",))])
    async with asyncio.timeout(2):
        await log.append(more(3), DONE)
    stopped.close()
    await log.close()
