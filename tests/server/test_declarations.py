"""Declarations over HTTP: versions, ETags, two editors, and a team that changes while it is served."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from changeover.server import Settings
from tests.server.door import Door, issue_all, opened

ADVISER = {"description": "Gives advice", "instructions": "Advise.", "handoffs": []}
PATH = "/declarations/agent/adviser"


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with opened(Settings(open_access=True)) as found:
        yield found


async def test_an_agent_is_declared_changed_and_removed(door: Door):
    async with door.client() as client:
        made = await client.put(PATH, json=ADVISER)
        assert (made.status_code, made.json()["version"], made.headers["etag"]) == (201, 1, '"1"'), made.text
        assert "adviser" in [each["id"] for each in (await client.get("/agents")).json()["items"]]
        said = {"text": "hello", "agent": "adviser"}
        outcome = (await client.post("/conversations", params={"wait": True}, json=said)).json()
        assert outcome["text"] == "adviser has done it."
        changed = await client.put(PATH, json={**ADVISER, "description": "More"}, headers={"If-Match": '"1"'})
        assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
        history = (await client.get(f"{PATH}/history")).json()["items"]
        assert [each["document"]["description"] for each in history] == ["Gives advice", "More"]
        assert (await client.get(PATH, params={"version": 1})).json()["document"] == ADVISER
        assert (await client.delete(PATH)).status_code == 204
        assert [each["name"] for each in (await client.get("/declarations")).json()["items"]] == []
        assert (await client.get(PATH)).json()["state"] == "removed"
        refused = await client.post("/conversations", params={"wait": True}, json=said)
        assert refused.status_code == 422, refused.text


async def test_of_two_editors_the_second_is_told_and_nothing_is_lost(door: Door):
    async with door.client() as client:
        await client.put(PATH, json=ADVISER)
        first = await client.put(PATH, json={**ADVISER, "description": "A"}, headers={"If-Match": '"1"'})
        second = await client.put(PATH, json={**ADVISER, "description": "B"}, headers={"If-Match": '"1"'})
        assert (first.status_code, second.status_code) == (200, 412)
        assert (second.json()["version"], "version 2" in second.json()["detail"]) == (2, True)
        assert (await client.get(PATH)).json()["document"]["description"] == "A"
        exists = await client.put(PATH, json=ADVISER, headers={"If-None-Match": "*"})
        assert exists.status_code == 412
        assert (await client.put(PATH, json=ADVISER, headers={"If-Match": "soon"})).status_code == 422


async def test_what_would_be_no_team_is_refused_with_all_faults(door: Door):
    async with door.client() as client:
        answer = await client.put(PATH, json={"handoffs": ["nobody"], "limits": {"max_turns": 0}})
        assert answer.status_code == 422
        assert "nobody" in answer.text
        assert (await client.get("/declarations")).json()["items"] == []
        assert (await client.get(PATH)).status_code == 404
        assert (await client.patch(PATH, json={"state": "disabled"})).status_code == 404
        assert (await client.put("/declarations/robot/adviser", json=ADVISER)).status_code == 422


FLOW: dict[str, Any] = {"steps": [{"id": "ask", "agent": "billing", "input": "{inputs.order}"}]}
SETTINGS = {
    "subscriptions": [{"types": "order.*", "to": "flow"}],
    "schedules": [{"name": "weekly", "cron": "0 7 * * 1", "start": "flow"}],
}


async def test_workflows_subscriptions_and_schedules_are_declared_changed_and_removed(door: Door):
    path, settings = "/declarations/workflow/flow", f"/declarations/team/{door.team.name}"
    async with door.client() as client:
        early = await client.put(settings, json=SETTINGS)
        assert (early.status_code, len(early.json()["faults"])) == (422, 2), early.text
        assert (await client.put(path, json=FLOW)).status_code == 201
        assert (await client.put(settings, json=SETTINGS)).status_code == 201
        run = await client.post("/workflows/flow/runs", params={"wait": True}, json={"inputs": {"order": "7"}})
        assert run.status_code in (200, 201), run.text
        assert [each["name"] for each in (await client.get("/schedules")).json()["items"]] == ["weekly"]
        other = {"steps": [*FLOW["steps"], {"id": "more", "agent": "billing", "after": ["ask"]}]}
        assert (await client.put(path, json=other, headers={"If-Match": '"1"'})).status_code == 200
        assert (await client.put(path, json=FLOW, headers={"If-Match": '"1"'})).status_code == 412
        assert (await client.get("/workflows/flow")).json()["steps"] == 2
        assert (await client.delete(path)).status_code == 204  # though the subscription and the schedule name it
        assert (await client.get("/workflows/flow")).status_code == 404
        assert len((await client.get("/schedules")).json()["items"]) == 1
        assert (await client.delete(settings)).status_code == 204
        assert (await client.get("/schedules")).json()["items"] == []
        assert [each["version"] for each in (await client.get(f"{path}/history")).json()["items"]] == [1, 2, 3]


async def test_all_faults_of_an_imported_text_have_lines_and_columns(door: Door):
    text = """\
workflows:
  flow:
    steps: [{id: ask, agent: nobody}, {id: more, agent: billing, after: [none]}]
subscriptions:
  - {types: a b, to: flow}
schedules:
  - {name: weekly, cron: soon, start: nobody}
"""
    async with door.client() as client:
        answer = await client.post("/import", json={"text": text, "write": True})
        places = re.findall(r"the document, line (\d+), column (\d+):", answer.text)
        assert (answer.status_code, [*dict.fromkeys(places)]) == (
            422,
            [("3", "13"), ("3", "39"), ("5", "5"), ("7", "5")],
        )
        assert (await client.get("/declarations")).json()["items"] == []


async def test_changes_are_audited_with_the_user_of_the_token():
    async with opened() as door:
        await issue_all(door)
        async with door.client("admin") as admin, door.client("viewer") as viewer:
            await admin.put(PATH, json=ADVISER)
            await admin.patch(PATH, json={"state": "disabled"})
            assert (await viewer.put(PATH, json=ADVISER)).status_code == 403
            assert (await viewer.get(PATH)).json()["by"] == "admin"
            subject = {"subject": "agent/adviser"}
            noted = (await admin.get("/audit", params=subject)).json()["items"]
            assert [(each["actor"], each["action"], each["detail"]["version"]) for each in noted] == [
                ("admin", "declaration.disabled", 2),
                ("admin", "declaration.put", 1),
            ]
