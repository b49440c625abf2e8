"""Runs that somebody may watch: at a terminal what leads to the answer is shown, beside it, as it happens."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from changeover.facts import RunResult
    from changeover.relay.stream import StreamItem
    from changeover.team import Team


async def said(team: Team, text: str, options: Mapping[str, Any]) -> RunResult:
    """What came of saying this."""
    if not sys.stderr.isatty():
        return await team.run(text, **options)
    return await _shown(team.stream(text, **options))


async def resumed(team: Team, conversation: str, first: Callable[[], Awaitable[None]] | None = None) -> RunResult:
    """What comes of going on, after `first`; what was recorded before was seen before."""
    if sys.stderr.isatty():
        past = await team.history(conversation)
        return await _shown(team.follow(conversation, first), past[-1].seq)
    if first is not None:
        await first()
    return await team.resume(conversation)


async def _shown(items: AsyncIterator[StreamItem], after: int = 0) -> RunResult:
    from changeover.cli.terminal.render import console
    from changeover.cli.terminal.transcript import Show
    from changeover.relay.stream import Recorded, RunFinished

    show = Show(console(error=True), texts=False)
    async for item in items:
        if isinstance(item, RunFinished):
            return item.result
        if not isinstance(item, Recorded) or item.seq > after:
            show.item(item)
        else:
            show.recall(item)
    raise AssertionError("a stream ends with its result")
