"""BatchRun: many runs of a team, several at once, with their results in order and their progress."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from changeover.cli.exits import Exit, console, error_text, escaped, short, tell
from changeover.errors import ChangeoverError, ConversationNotFound

if TYPE_CHECKING:
    from changeover.facts import RunResult
    from changeover.team import Team

STEPS = 20
"""Largest number of lines about progress in a pipe."""


class Item(NamedTuple):
    """One line of the input."""

    line: int
    id: str
    """The id of its conversation, and the key of its run: the same line of the same file has the same one."""
    text: str
    inputs: dict[str, Any] | None
    """The inputs of a workflow, or context variables."""


class Done(NamedTuple):
    """The outcome of a line."""

    item: Item
    status: str
    output: Any
    error: str = ""

    @property
    def json(self) -> str:
        about: dict[str, Any] = {"line": self.item.line, "status": self.status, "conversation": self.item.id}
        said = {"error": self.error} if self.error else {"output": self.output}
        return escaped(json.dumps({**about, **said}, default=str))


class BatchRun:
    """Runs a team or a workflow for each item."""

    def __init__(
        self, team: Team, items: Sequence[Item], workflow: str | None, options: dict[str, Any], failed: bool
    ) -> None:
        self._team, self._items, self._workflow = team, items, workflow
        self._options, self._only_failed = options, failed
        self._ended: dict[int, Done | None] = {}
        """By the index of the item; None if it was left out."""
        self._bad: list[Done] = []
        self._left_out = self._written = 0

    def run(self, file: TextIO, concurrency: int) -> Exit:
        """Run all items, write their results in order, and list those that did not complete; returns the exit code."""
        try:
            with self._progress() as progress:
                asyncio.run(self._all(file, concurrency, progress))
        except KeyboardInterrupt:
            again = shlex.join(["changeover", *sys.argv[1:]])
            tell(f"\nInterrupted; everything recorded is kept. To continue:\n  {again}")
            return Exit.INTERRUPTED
        return self._summed_up()

    async def _all(self, file: TextIO, concurrency: int, progress: Progress) -> None:
        places = asyncio.Semaphore(concurrency)

        async def one(index: int) -> None:
            try:
                done = await self._done(self._items[index])
            finally:
                places.release()
            self._note(index, done, file)
            progress.advance(len(self._ended), len(self._bad))

        try:
            async with asyncio.TaskGroup() as group:
                for index in range(len(self._items)):
                    await places.acquire()
                    group.create_task(one(index))
        finally:
            await self._team.close()

    async def _done(self, item: Item) -> Done | None:
        """Run an item, or go on with it; None if it is left out."""
        try:
            result = await self._result(item)
        except ConversationNotFound:
            return None
        except ChangeoverError as error:
            return Done(item, "failed", None, error_text(error))
        return Done(item, result.status, result.output)

    async def _result(self, item: Item) -> RunResult[Any]:
        if self._only_failed:
            return await self._team.resume(item.id)
        at: dict[str, Any] = {"conversation": item.id, "key": item.id, **self._options}
        if self._workflow is not None:
            given = item.text if item.inputs is None else item.inputs
            return await self._team.run_workflow(self._workflow, given, **at)
        return await self._team.run(item.text, context=item.inputs, **at)

    def _note(self, index: int, done: Done | None, file: TextIO) -> None:
        """Keep a result, and write all whose turn it is."""
        self._ended[index] = done
        if done is None:
            self._left_out += 1
        elif done.status != "completed":
            self._bad.append(done)
        while self._written in self._ended:
            if (next_one := self._ended[self._written]) is not None:
                file.write(next_one.json + "\n")
                file.flush()
                self._ended[self._written] = None
            self._written += 1

    def _summed_up(self) -> Exit:
        for each in sorted(self._bad, key=lambda done: done.item.line):
            why = f": {short(each.error)}" if each.error else ""
            tell(f"line {each.item.line} {each.status}{why} ({each.item.id})")
        if self._left_out:
            tell(f"{self._left_out} of {len(self._items)} lines were not started; without --failed they are")
        states = {each.status for each in self._bad}
        if states - {"waiting"}:
            return Exit.FAILED
        return Exit.WAITING if states else Exit.FINE

    def _progress(self) -> AbstractContextManager[Progress]:
        if console(error=True).is_terminal:
            return _bar(len(self._items))
        return nullcontext(Progress(len(self._items)))


class Progress:
    """Prints lines about progress on standard error."""

    def __init__(self, count: int) -> None:
        self._count, self._step = count, max(1, -(-count // STEPS))

    def advance(self, ended: int, bad: int) -> None:
        """Report the number of items that have ended, and the number of those that did not complete."""
        if ended % self._step == 0 or ended == self._count:
            tell(" ".join(part for part in (f"{ended} of {self._count} done", _bad_words(bad)) if part))


def _bad_words(bad: int) -> str:
    return f"({bad} not completed)" if bad else ""


class _Bar(Progress):
    """Draws progress as a bar."""

    def __init__(self, count: int, draw: Any) -> None:
        super().__init__(count)
        self._draw = draw

    def advance(self, ended: int, bad: int) -> None:
        self._draw(ended, bad)


@contextmanager
def _bar(count: int) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[bad]}"), TimeElapsedColumn())
    with Bar(*columns, console=console(error=True), redirect_stdout=False) as bar:
        task = bar.add_task("", total=count, bad="")
        yield _Bar(count, lambda ended, bad: bar.update(task, completed=ended, bad=_bad_words(bad)))
