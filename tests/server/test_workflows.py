"""Workflows over HTTP: read and drawn, started with a key, how far the steps are, and a step retried."""

from pathlib import Path
from typing import Any

import httpx2 as httpx

from tests.cli.process import changeover
from tests.server.process import ADMIN, Server, until

STARTED = {"inputs": {"name": "Ada", "words": "thanks"}}


def steps(client: httpx.Client, id: str) -> dict[str, str]:
    """The status of each step of the workflow in a conversation."""
    [found] = client.get(f"/conversations/{id}/workflows").raise_for_status().json()["items"]
    return {each["id"]: "asks" if each["id"] in found["waits_for"] else each["status"] for each in found["steps"]}


def approve(client: httpx.Client, id: str) -> None:
    [pending] = client.get("/approvals", params={"conversation": id}).json()["items"]
    client.post(f"/approvals/{pending['id']}/decision", json={"decision": {"type": "approve"}}).raise_for_status()


def ended(client: httpx.Client, id: str) -> dict[str, Any]:
    """The workflow in a conversation, once it is over."""
    url = f"/conversations/{id}/workflows"
    over: dict[str, Any] = until(
        lambda: (found := client.get(url).json()["items"][0])["status"] not in ("running", "rolling back") and found
    )
    return over


def test_workflows_are_listed_and_drawn(server: Server):
    with server.client() as client:
        [listed] = client.get("/workflows").json()["items"]
        assert (listed["id"], listed["name"], listed["steps"]) == ("parcel", "Take a parcel back", 4)
        assert listed["inputs"] == ["name", "label", "words"]
        read = client.get("/workflows/parcel").json()
        assert next(each["after"] for each in read["definition"]["steps"] if "after" in each) == ["greet"]
        boxes = {each["id"]: each["box"] for each in read["map"]["steps"]}
        assert boxes["greet"]["y"] < boxes["label"]["y"] == boxes["check"]["y"] < boxes["thank"]["y"]
        assert next((each["source"], each["target"]) for each in read["map"]["links"]) == ("greet", "label")
        missing = client.get("/workflows/none")
        assert (missing.status_code, missing.json()["type"]) == (404, "urn:changeover:problem:workflow-not-found")


def test_a_workflow_is_started_once_per_key_and_shows_how_far_it_is(server: Server):
    with server.client() as client:
        key = {"Idempotency-Key": f"parcel {server.store}"}
        first, again = (client.post("/workflows/parcel/runs", headers=key, json=STARTED) for _ in range(2))
        assert (first.status_code, first.json()) == (202, again.json())
        id = first.json()["conversation"]
        until(lambda: steps(client, id)["check"] == "asks")
        assert steps(client, id) == {"greet": "done", "label": "skipped", "check": "asks", "thank": "pending"}
        refused = client.post(f"/conversations/{id}/steps/greet/retry")
        assert refused.status_code == 409
        approve(client, id)
        over = ended(client, id)
        assert (over["status"], over["workflow"], over["inputs"]) == ("completed", "parcel", STARTED["inputs"])
        assert [each["output"] for each in over["steps"] if each["output"]] == ["Hello."] * 3
        other = client.post("/workflows/parcel/runs", headers=key, json={"inputs": {"name": "Eve"}})
        assert other.status_code == 409


def test_a_failed_workflow_tells_why_and_one_step_can_be_retried(server: Server):
    with server.client() as client:
        said = {"inputs": {"name": "Ada", "words": "fail"}}
        id = client.post("/workflows/parcel/runs", json=said).json()["conversation"]
        until(lambda: steps(client, id)["check"] == "asks")
        approve(client, id)
        over = ended(client, id)
        assert (over["status"], "the step 'check'" in over["error"]) == ("failed", True)
        failed = next(each for each in over["steps"] if each["id"] == "check")
        assert (failed["status"], "no line" in failed["error"], failed["attempts"]) == ("failed", True, 1)
        retried = client.post(f"/conversations/{id}/steps/greet/retry")
        assert (retried.status_code, retried.json()["conversation"]) == (202, id)
        until(lambda: steps(client, id) == {"greet": "done", "label": "skipped", "check": "asks", "thank": "pending"})
        unknown = client.post(f"/conversations/{id}/steps/nothing/retry")
        assert unknown.status_code == 409  # it is at work
        talk = client.post("/conversations", params={"wait": True}, json={"text": "hello"}).json()["conversation"]
        assert client.get(f"/conversations/{talk}/workflows").json()["items"] == []


def test_the_command_line_works_with_the_workflows_of_a_server(server: Server, tmp_path: Path):
    at = {"CHANGEOVER_SERVER": server.url, "CHANGEOVER_TOKEN": ADMIN}
    assert "parcel" in changeover("workflows", at=tmp_path, **at).stdout
    assert "greet: triage\n" in changeover("workflows", "show", "parcel", at=tmp_path, **at).stdout
    begun = changeover("workflows", "start", "parcel", "name=Ada", "words=hi", at=tmp_path, **at)
    assert begun.returncode == 0, begun.stderr
    id = begun.stdout.split("the conversation ")[1].split(";")[0]
    with server.client() as client:
        until(lambda: steps(client, id)["check"] == "asks")
        approve(client, id)
        ended(client, id)
        assert changeover("workflows", "retry", id, "thank", at=tmp_path, **at).returncode == 0
        assert ended(client, id)["status"] == "completed"
