"""Summarisers that fail in every way, and attachments of every kind: nothing is lost, and the record says so."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, File, Reference, RunResult, Summary, Team
from changeover.handoffs.strategies import Strategy
from changeover.handoffs.tokens import count
from changeover.messages import Message, ToolResult
from changeover.testing import ScriptedModel, calls, fails, hands_off, says
from changeover.tools.tool import ToolDefinition

FACT = "The contract number is C-20931."


async def handed(strategy: Strategy, helper: Any = None, result: str = "", **options: Any) -> tuple[RunResult, str]:
    """What comes of a handoff, and what its receiver reads and fetches with one query."""
    read: list[str] = []

    def look() -> str:
        """Look it up."""
        return result or FACT

    async def plays(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Any:
        if agent == "helper":
            return await helper() if callable(helper) else helper or says("In short: nothing.")
        if agent == "triage":
            return hands_off("billing", "Go on.") if isinstance(messages[-1], ToolResult) else calls(("look", {}))
        read[:] = [message.text for message in messages]
        asked = isinstance(messages[-1], ToolResult) or not any(tool.name == "fetch_context" for tool in tools)
        return says("Done.") if asked else calls(("fetch_context", {"query": "contract number C-20931"}))

    model = ScriptedModel(plays)
    members = [Agent("triage", tools=[look]), Agent("billing", strategy=strategy)]
    done = await Team(members, model=model, helper_model=model).run("Hello?", **options)
    return done, "\n".join(read)


async def hangs() -> Any:
    await asyncio.sleep(3_600)


async def swallows() -> Any:
    """Goes on although it is cancelled, for a while."""
    for _ in range(20):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return says("late")


FAILING: dict[str, Any] = {
    "raises": ValueError("no"),
    "refuses": fails("the content was refused", retryable=False),
    "says nothing": says(""),
    "says blanks": says(" \n\t "),
    "hangs": hangs,
    "swallows its cancellation": swallows,
    "is no reply": 7,
}


@pytest.mark.parametrize("helper", FAILING.values(), ids=FAILING)
async def test_a_summary_that_fails_becomes_a_reference_and_no_fact_is_lost(helper: Any):
    result, read = await handed(Summary(timeout=0.2, whole_up_to=0), helper)
    [record] = result.handoff_chain
    assert (record.strategy, record.strategy_error != "") == ("reference", True)
    assert FACT in read


ODD = {"wrong": "The contract number is C-99999.", "endless": "word " * 200_000, "one word": "x" * 500_000}


@pytest.mark.parametrize("summary", ODD.values(), ids=ODD)
async def test_a_wrong_or_endless_summary_is_bounded_and_facts_stand_beside_it(summary: str):
    result, read = await handed(Summary(max_tokens=100, whole_up_to=0), says(summary))
    [record] = result.handoff_chain
    assert (record.strategy, record.strategy_error) == ("summary", "")
    assert record.tokens_after < 400
    assert FACT in read


KEPT = {
    "csv": File(f"id,text\n1,{FACT}\n".encode(), "text/csv", "a.csv"),
    "text without a heading": File(FACT.encode(), "text/plain", "a.txt"),
    "markdown": File(f"# Notes\n\n{FACT}".encode(), "text/markdown", "a.md"),
    "html": File(f"<p>{FACT}</p>".encode(), "text/html", "a.html"),
    "json": File(json.dumps({"deep": [{"text": FACT}]}).encode(), "application/json", "a.json"),
    "without a name": File(FACT.encode(), "text/plain"),
    "yaml": File(f"text: {FACT}".encode(), "application/yaml", "a.yaml"),
    "one long line": File(f"{'word ' * 20_000}{FACT} {'word ' * 20_000}".encode(), "text/plain", "long.txt"),
}
KEEPERS: dict[str, Strategy] = {"summary": Summary(whole_up_to=0), "reference": Reference(whole_up_to=0)}
both = pytest.mark.parametrize("strategy", KEEPERS.values(), ids=KEEPERS)


@both
@pytest.mark.parametrize("file", KEPT.values(), ids=KEPT)
async def test_text_files_of_every_kind_can_be_found(strategy: Strategy, file: File):
    result, read = await handed(strategy, result="nothing", files=[file])
    [record] = result.handoff_chain
    assert (record.strategy_error, "C-20931" in read) == ("", True)


@both
async def test_binary_files_are_named_and_do_no_harm(strategy: Strategy):
    files = [
        File(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "image/png", "a.png"),
        File(b"%PDF-1.4 \xff\xfe", name="b.pdf"),
    ]
    result, read = await handed(strategy, files=files)
    [record] = result.handoff_chain
    assert record.strategy_error == ""
    assert FACT in read
    assert "[a.png (image/png)]" in read


@both
async def test_a_megabyte_of_json_on_one_line_is_left_out_and_searched(strategy: Strategy):
    records = [{"id": number, "note": f"note {number * 7919 % 100_003}"} for number in range(30_000)]
    records[12_345]["note"] = FACT
    file = File(json.dumps(records).encode(), "application/json", "records.json")
    assert len(file.data) > 1_000_000
    result, read = await handed(strategy, result="nothing", files=[file])
    [record] = result.handoff_chain
    assert (record.strategy_error, record.tokens_after < 1_500) == ("", True)
    assert FACT in read
    assert count(read) < 4_000
