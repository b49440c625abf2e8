"""Work that has to be done by a certain time."""

from __future__ import annotations

import asyncio
from typing import Any

from changeover.relay.ports import Clock


async def in_time(clock: Clock, deadline: float | None, work: asyncio.Future[Any]) -> bool:
    """Wait for this work until then; whether it was done by then. It is not cancelled."""
    if deadline is None:
        await asyncio.wait([work])
        return True
    alarm = asyncio.ensure_future(clock.alarm(deadline))
    try:
        await asyncio.wait([work, alarm], return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        alarm.cancel()
