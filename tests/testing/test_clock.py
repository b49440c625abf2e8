"""ManualClock stands still until a test moves it."""

import asyncio
import threading

import pytest

from changeover.relay.ports.world import Clock
from changeover.testing import ManualClock


async def wake(clock: Clock, at: float, diary: list[float]) -> None:
    await clock.sleep_until(at)
    diary.append(clock.now())


def test_it_shows_its_start_until_it_is_moved():
    clock: Clock = ManualClock(start=100.0)
    assert [clock.now(), clock.now()] == [100.0, 100.0]


async def test_advancing_moves_it_to_the_end():
    clock = ManualClock(start=100.0)
    await clock.advance(2.5)
    assert clock.now() == 102.5


async def test_a_sleeper_wakes_only_when_its_time_has_come():
    clock, diary = ManualClock(start=0.0), list[float]()
    async with asyncio.TaskGroup() as group:
        group.create_task(wake(clock, 10.0, diary))
        await clock.advance(9.0)
        assert diary == []
        await clock.advance(1.0)
    assert diary == [10.0]


async def test_sleepers_wake_in_the_order_of_their_time_and_each_sees_its_own():
    clock, diary = ManualClock(start=0.0), list[float]()
    async with asyncio.TaskGroup() as group:
        for at in (30.0, 10.0, 20.0, 10.0):
            group.create_task(wake(clock, at, diary))
        await clock.advance(60.0)
    assert diary == [10.0, 10.0, 20.0, 30.0]
    assert clock.now() == 60.0


async def test_a_task_that_sleeps_again_while_time_passes_wakes_again():
    clock, diary = ManualClock(start=0.0), list[float]()

    async def every_ten_seconds() -> None:
        for _ in range(3):
            await wake(clock, clock.now() + 10.0, diary)

    async with asyncio.TaskGroup() as group:
        group.create_task(every_ten_seconds())
        await clock.advance(30.0)
        assert diary == [10.0, 20.0, 30.0]


async def test_a_sleep_that_is_over_already_ends_at_once():
    clock = ManualClock(start=100.0)
    async with asyncio.timeout(1):
        await clock.sleep_until(100.0)
        await clock.sleep_until(7.0)
    assert clock.now() == 100.0


async def test_a_sum_of_small_steps_reaches_the_deadline_that_it_adds_up_to():
    clock, diary = ManualClock(), list[float]()
    async with asyncio.TaskGroup() as group:
        group.create_task(wake(clock, clock.now() + 1.1, diary))
        for _ in range(11):
            await clock.advance(0.1)
        assert len(diary) == 1


async def test_a_cancelled_sleeper_is_forgotten():
    clock, diary = ManualClock(start=0.0), list[float]()
    task = asyncio.create_task(wake(clock, 5.0, diary))
    await clock.advance(1.0)
    task.cancel()
    await clock.advance(10.0)
    assert task.cancelled()
    assert diary == []


async def test_time_does_not_go_back():
    with pytest.raises(ValueError, match="the clock cannot go back"):
        await ManualClock().advance(-1)


async def test_an_automatic_clock_moves_to_the_end_of_each_sleep():
    clock, diary = ManualClock(start=0.0, auto=True), list[float]()
    await wake(clock, 300.0, diary)
    await wake(clock, 200.0, diary)
    assert diary == [300.0, 300.0]


async def test_a_loop_of_automatic_sleeps_lets_others_run():
    clock = ManualClock(start=0.0, auto=True)
    other = asyncio.create_task(asyncio.sleep(0))
    while not other.done() and clock.now() < 100:
        await clock.sleep_until(clock.now() + 1)
    assert other.done()


async def test_an_alarm_goes_off_when_its_time_has_come():
    clock, diary = ManualClock(start=0.0), list[float]()

    async def wait() -> None:
        await clock.alarm(10.0)
        diary.append(clock.now())

    async with asyncio.TaskGroup() as group:
        group.create_task(wait())
        await clock.advance(9.0)
        assert diary == []
        await clock.advance(5.0)
    assert diary == [10.0]


async def test_an_alarm_for_a_time_that_is_past_goes_off_at_once():
    clock = ManualClock(start=100.0)
    async with asyncio.timeout(1):
        await clock.alarm(100.0)
        await clock.alarm(7.0)
    assert clock.now() == 100.0


async def test_an_automatic_clock_is_not_moved_by_an_alarm():
    clock = ManualClock(start=0.0, auto=True)
    alarm = asyncio.create_task(clock.alarm(300.0))
    await asyncio.sleep(0.01)
    assert (alarm.done(), clock.now()) == (False, 0.0)
    alarm.cancel()


async def test_an_alarm_goes_off_when_a_sleeper_moves_an_automatic_clock_past_it():
    clock, diary = ManualClock(start=0.0, auto=True), list[str]()

    async def wait(at: float) -> None:
        await clock.alarm(at)
        diary.append(f"alarm {at:g}")

    async with asyncio.TaskGroup() as group:
        late = group.create_task(wait(30.0))
        for at in (20.0, 10.0):
            group.create_task(wait(at))
        await asyncio.sleep(0)
        await clock.sleep_until(25.0)
        await asyncio.sleep(0.01)
        assert (diary, late.done(), clock.now()) == (["alarm 10", "alarm 20"], False, 25.0)
        await clock.advance(5.0)
    assert diary == ["alarm 10", "alarm 20", "alarm 30"]


async def test_an_alarm_without_a_waiter_is_forgotten():
    clock = ManualClock(start=0.0)
    alarm = asyncio.create_task(clock.alarm(5.0))
    await clock.advance(1.0)
    alarm.cancel()
    await clock.advance(10.0)
    assert (alarm.cancelled(), clock.now()) == (True, 11.0)


def test_it_serves_successive_event_loops_and_forgets_the_sleepers_of_a_closed_one():
    clock, diary = ManualClock(start=0.0), list[float]()

    async def abandon_a_sleeper() -> None:
        forgotten.append(asyncio.ensure_future(clock.sleep_until(5.0)))
        await clock.advance(1.0)

    async def sleep() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wake(clock, 10.0, diary))
            await clock.advance(9.0)

    forgotten: list[asyncio.Future[None]] = []
    asyncio.run(abandon_a_sleeper())
    asyncio.run(sleep())
    assert forgotten[0].cancelled()
    assert diary == [10.0]


async def test_a_sleeper_in_the_event_loop_of_another_thread_is_woken_there():
    clock, diary = ManualClock(start=0.0), list[float]()
    thread = threading.Thread(target=lambda: asyncio.run(wake(clock, 10.0, diary)))
    thread.start()
    while thread.is_alive():
        await clock.advance(10.0)
    thread.join()
    assert len(diary) == 1
