"""Writes the log of every story, as this version writes it, into a golden file: `python -m tests.upgrade.write_golden`.

A file is written once, for each release, and read by the tests for ever.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

import changeover
from changeover.relay.events import Entry, Event
from changeover.relay.state import State
from changeover.stores.memory.log import MemoryLog
from tests.stories.book import STORIES, Stage

GOLDEN = Path(__file__).parent / "golden"


class Kept(msgspec.Struct):
    """One conversation of one story, and what it folds to."""

    story: str
    entries: list[dict[str, Any]]
    summary: dict[str, Any]


def summary_of(state: State) -> dict[str, Any]:
    """What every later version must read from this log."""
    summary = {
        "agent": state.agent,
        "position": state.position,
        "variables": state.variables,
        "path": state.path,
        "thread": msgspec.to_builtins(state.thread),
        "handoffs": [msgspec.to_builtins(record) for record in state.handoffs],
        "outcomes": {
            str(run): [outcome.agent, outcome.output, msgspec.to_builtins(outcome.fault)]
            for run, outcome in state.outcomes.items()
        },
        "inbox": [*state.inbox],
    }
    return msgspec.json.decode(msgspec.json.encode(summary))  # type: ignore[no-any-return]


def plain(entry: Entry) -> dict[str, Any]:
    return {**msgspec.to_builtins(entry), "events": msgspec.to_builtins(entry.events)}


def entry_of(kept: dict[str, Any]) -> Entry:
    events = msgspec.convert(kept["events"], tuple[Event, ...])
    return Entry(**{**kept, "events": events})


async def tell(name: str) -> list[Kept]:
    log = MemoryLog()
    stage = Stage(store=log)
    await STORIES[name](stage)
    await stage.close()
    conversations = [await log.read(id) for id in log._entries]
    return [
        Kept(name, [plain(entry) for entry in entries], summary_of(State(entries[0].conversation).fold(entries)))
        for entries in conversations
        if entries and sum(len(msgspec.json.encode(entry)) for entry in entries) < 3_000
    ]


def _kinds(kept: Kept) -> tuple[str, ...]:
    """The kinds of its events in their order: what two conversations have in common need not be kept twice."""
    return tuple(event["event"] for entry in kept.entries for event in entry["events"])


async def main() -> None:
    path = GOLDEN / f"{changeover.__version__}.jsonl"
    if path.exists():
        sys.exit(f"{path.name} was written before: what a release wrote does not change any more")
    told = [line for name in STORIES for line in await tell(name)]
    kept = list({_kinds(line): line for line in told}.values())
    path.write_bytes(b"\n".join(msgspec.json.encode(line) for line in kept) + b"\n")
    print(f"{len(kept)} conversations in {path.name}")


if __name__ == "__main__":
    asyncio.run(main())
