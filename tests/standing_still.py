"""A test that stands still, for `test_standing_still.py`; `pytest` does not find it by itself."""

import asyncio
import threading


async def test_that_stands_still():
    async def waits_in_a_task():
        await asyncio.Event().wait()

    thread = threading.Thread(target=threading.Event().wait, name="thread-that-waits", daemon=True)
    thread.start()
    await asyncio.create_task(waits_in_a_task(), name="task-that-waits")
