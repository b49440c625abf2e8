"""Logs for operators: ids, agents and outcomes as lines of JSON, and nothing that was said."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Member, Team, Telemetry, handoff
from changeover.errors import ChangeoverError
from changeover.observe.logs import JsonLines
from changeover.testing import ScriptedModel, hands_off, says
from tests.observe.test_telemetry import Seen
from tests.server.process import ADMIN, serving, until


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="changeover.work")
    return caplog


def told(lines: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    found = [json.loads(JsonLines().format(record)) for record in lines.records if record.name == "changeover.work"]
    return [{name: value for name, value in each.items() if name not in ("time", "logger")} for each in found]


async def test_what_happens_is_logged_with_its_ids_and_without_a_word_that_was_said(lines: pytest.LogCaptureFixture):
    script = {"a": [hands_off("b", "private words")], "b": [says("private answer")]}
    members: list[Member] = [Agent("a", instructions="private rules"), Agent("b", handoffs=())]
    seen = Seen()
    team = Team(members, model=ScriptedModel(script), telemetry=Telemetry(tracer_provider=seen.provider))
    team = team.on(None, narrated=True)
    await team.run("private question", conversation="c", context={"secret": "private value"}, user="private person")
    trace = f"{seen.one('invoke_workflow').context.trace_id:032x}"
    ids = {"conversation": "c", "run": "c@1", "trace_id": trace}
    handed = {**ids, "handoff": "c:3.0"}
    assert told(lines) == [
        {"level": "INFO", "message": "run started", **ids, "agent": "a"},
        {"level": "INFO", "message": "handoff offered", **handed, "sender": "a", "receiver": "b", "mode": "transfer"},
        {"level": "INFO", "message": "handoff accepted", **handed, "receiver": "b"},
        {"level": "INFO", "message": "run completed", **ids},
    ]
    assert not [record for record in lines.records if "private" in JsonLines().format(record)]


async def test_a_run_that_fails_is_an_error_with_its_kind(lines: pytest.LogCaptureFixture):
    team = Team([Agent("a")], model=ScriptedModel({"a": []}), model_retries=0).on(None, narrated=True)
    with pytest.raises(ChangeoverError):
        await team.run("Go", conversation="c")
    *_, last = told(lines)
    assert (last["level"], last["message"], last["error"]) == ("ERROR", "run failed", "ModelFault")


async def test_a_person_who_is_asked_is_logged(lines: pytest.LogCaptureFixture):
    script = {"a": [hands_off("b", "Yours.")]}
    members: list[Member] = [Agent("a", handoffs=[handoff("b", approval=True)]), Agent("b")]
    await Team(members, model=ScriptedModel(script)).on(None, narrated=True).run("Go", conversation="c")
    assert "approval requested" in {str(each["message"]) for each in told(lines)}


def test_a_server_writes_lines_of_json_with_ids_and_nothing_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")  # for the ids of traces
    options = ("--token", ADMIN, "--log-format", "json")
    with serving(f"sqlite:///{tmp_path / 'desk.db'}", *options) as server, server.client() as client:
        said = {"text": "close it, private words", "context": {"secret": "private value"}}
        begun = client.post("/conversations", params={"wait": True}, json=said).json()
        written = until(lambda: _lines(server.log, "approval requested"))
    conversation = begun["conversation"]
    ids = {"conversation": conversation, "run": begun["run"]}
    assert [line["message"] for line in written] == [
        *("run started", "handoff offered", "handoff accepted", "approval requested")
    ]
    assert all(line["level"] == "INFO" and ids.items() <= line.items() for line in written)
    assert len({line["trace_id"] for line in written}) == 1
    assert [line.get("handoff") for line in written] == [None, *[f"{conversation}:3.0"] * 2, None]
    assert written[-1]["call"] == f"{conversation}:6.0"
    assert "private" not in json.dumps(written)


def _lines(log: Path, last: str) -> list[dict[str, Any]]:
    """The lines about work, once this one is there."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"time"')]
    work = [line for line in lines if line["logger"] == "changeover.work"]
    return work if any(line["message"] == last for line in work) else []


def test_a_line_of_json_holds_the_error_and_masks_tokens():
    try:
        raise ValueError("postgresql://user:secret@host failed")
    except ValueError as error:
        record = logging.LogRecord(
            "changeover.x", logging.ERROR, "", 1, "Bearer %s", ("abc",), (type(error), error, None)
        )
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["error"]) == ("Bearer ***", "ValueError: postgresql://***@host failed")
