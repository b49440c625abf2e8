"""How Hypothesis runs here: no deadline per example, and the same examples each time in CI.

A test that stands still fails, and reports the stacks of all tasks beside those of all threads.

Assertions in stories are explained as those in tests are; pytest must be told before the first import of a story.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

settings.register_profile("changeover", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("changeover")

for path in (Path(__file__).parent / "stories").glob("[a-z]*.py"):
    pytest.register_assert_rewrite(f"tests.stories.{path.stem}")


def without_traceback(record: logging.LogRecord) -> bool:
    """Keep the report of a task that nothing awaited, but not its traceback.

    asyncio reports it while the task is collected. CPython 3.11 parses source to format a traceback, and an `ast.parse`
    that the collector interrupted then fails with a SystemError, in whichever test is running.
    """
    record.exc_info = None
    return True


logging.getLogger("asyncio").addFilter(without_traceback)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer() -> Iterator[None]:
    """Have the handler that pytest-timeout sets report the tasks first; it reports the threads and fails the test."""
    set_up = yield
    fail = signal.getsignal(signal.SIGALRM)
    if callable(fail):

        def report(number: int, frame: FrameType | None) -> None:
            report_tasks()
            fail(number, frame)

        signal.signal(signal.SIGALRM, report)
    return set_up


def report_tasks() -> None:
    """Write the name and the stack of every task of every event loop to stderr."""
    # From the garbage collector: asyncio lists only the tasks of one loop. By type: some objects claim another class.
    for task in [each for each in gc.get_objects() if issubclass(type(each), asyncio.Task)]:
        if not task.done():
            print(f"~~~ Task {task.get_name()}: {task!r}", file=sys.stderr)
            task.print_stack(file=sys.stderr)
