"""The lock of a conversation: one holder at a time, in the order of asking, also when tasks are cancelled."""

import asyncio

import pytest

from changeover.engines.lock import Lock


async def test_a_free_lock_is_entered_and_left_without_a_turn_of_the_event_loop():
    lock, turns = Lock(), list[str]()
    asyncio.get_running_loop().call_soon(turns.append, "another's")
    async with lock:
        assert lock.locked()
    assert not lock.locked()
    assert not turns


async def test_tasks_get_the_lock_one_at_a_time_in_the_order_of_asking():
    lock, order, inside = Lock(), list[int](), 0

    async def work(name: int) -> None:
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            order.append(name)
            inside -= 1

    await asyncio.gather(*map(work, range(5)))
    assert order == [0, 1, 2, 3, 4]
    assert not lock.locked()


async def test_the_lock_is_free_again_after_an_exception():
    lock = Lock()
    with pytest.raises(ValueError, match="inside"):
        async with lock:
            raise ValueError("inside")
    assert not lock.locked()


@pytest.mark.parametrize("passed_on", [False, True])
async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_lock_to_the_next(passed_on: bool):
    lock, held = Lock(), asyncio.Event()
    got = list[str]()

    async def hold() -> None:
        async with lock:
            await held.wait()

    async def take(name: str) -> None:
        async with lock:
            got.append(name)

    holder, first, second = (asyncio.ensure_future(each) for each in (hold(), take("first"), take("second")))
    await asyncio.sleep(0)
    if passed_on:  # the first has the lock already when it is cancelled, and has not run yet
        held.set()
        await asyncio.sleep(0)
    first.cancel()
    held.set()
    await asyncio.gather(holder, first, second, return_exceptions=True)
    assert got == ["second"]
    assert not lock.locked()
