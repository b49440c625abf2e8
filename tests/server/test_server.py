"""A real server process: what a client in another program sees, on each database."""

from tests.server.process import Server, ids, until


def test_a_conversation_is_begun_and_continued_over_http(server: Server):
    with server.client() as client:
        begun = client.post("/conversations", params={"wait": True}, json={"text": "hello"})
        assert (begun.status_code, begun.json()["status"], begun.json()["output"]) == (200, "completed", "Hello.")
        id = begun.json()["conversation"]
        more = client.post(f"/conversations/{id}/messages", json={"text": "hello again"})
        assert (more.status_code, more.json()["conversation"]) == (202, id)
        run = more.json()["run"]
        outcome = until(lambda: (found := client.get(f"/runs/{run}").json())["status"] == "completed" and found)
        assert outcome["text"] == "Hello."
        runs = client.get(f"/conversations/{id}/runs").json()["items"]
        assert [each["run"] for each in runs] == [begun.json()["run"], run]
        assert client.get(f"/conversations/{id}").json()["status"] == "completed"
        assert id in ids(client.get("/conversations").json()["items"])


def test_events_have_the_fields_of_the_contract_and_are_numbered_without_gaps(server: Server):
    with server.client() as client:
        id = client.post("/conversations", params={"wait": True}, json={"text": "hello"}).json()["conversation"]
        events = client.get(f"/conversations/{id}/events").json()["items"]
        assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
        assert all(each.keys() == {"seq", "at", "conversation", "task", "type", "agent", "data"} for each in events)
        spoken = next(each for each in events if each["type"] == "user_spoke")
        assert spoken["data"]["text"] == "hello"
        later = client.get(f"/conversations/{id}/events", params={"after": 2}).json()["items"]
        assert later == events[2:]
        exported = client.get(f"/conversations/{id}/export").json()
        assert (exported["events"], exported["conversation"]["id"]) == (events, id)


def test_a_person_decides_over_http_and_the_run_goes_on(server: Server):
    with server.client() as client:
        outcome = client.post("/conversations", params={"wait": True}, json={"text": "a refund"}).json()
        assert (outcome["status"], outcome["agent"]) == ("waiting", "billing")
        [request] = outcome["pending"]
        assert request["arguments"] == {"amount": 24.95}
        assert request["id"] in ids(client.get("/approvals").json()["items"])
        assert client.get(f"/approvals/{request['id']}").json()["status"] == "pending"
        decided = client.post(f"/approvals/{request['id']}/decision", json={"decision": {"type": "approve"}})
        assert decided.status_code == 204
        resumed = client.post(f"/conversations/{outcome['conversation']}/resume", params={"wait": True}).json()
        assert (resumed["status"], resumed["text"]) == ("completed", "billing has done it.")
        assert [each["receiver"] for each in resumed["handoffs"]] == ["billing"]
        again = client.post(f"/approvals/{request['id']}/decision", json={"decision": {"type": "reject"}})
        assert (again.status_code, again.json()["type"]) == (409, "urn:changeover:problem:approval-error")


def test_a_worker_claims_heartbeats_and_completes_over_http(server: Server):
    with server.client() as client:
        outcome = client.post("/conversations", params={"wait": True}, json={"text": "research it"}).json()
        assert [each["kind"] for each in outcome["pending"]] == ["claim"]
        [claimed] = client.post("/claims", json={"agent": "research", "lease": 5, "by": "ana"}).json()
        id, said = claimed["ticket"]["id"], {"claim": claimed["claim"]}
        assert claimed["package"]["task"]["description"] == "Look it up."
        queued = next(each for each in client.get("/tickets").json()["items"] if each["ticket"]["id"] == id)
        assert queued["worker"] == "ana"
        assert claimed["claim"] not in str(queued)
        assert client.post(f"/tickets/{id}/accept", json=said).status_code == 204
        assert client.post(f"/tickets/{id}/heartbeat", json=said).status_code == 204
        assert client.post(f"/tickets/{id}/heartbeat", json={"claim": "1~ana#forged"}).status_code == 409
        assert client.post(f"/tickets/{id}/complete", json={**said, "result": "It is so."}).status_code == 204
        assert client.get(f"/tickets/{id}/result", params={"timeout": 20}).json()["result"] == "It is so."
        resumed = client.post(f"/conversations/{outcome['conversation']}/resume", params={"wait": True}).json()
        assert resumed["status"] == "completed"


def test_the_context_flow_of_a_conversation_is_told(server: Server):
    said = {"text": "a question", "context": {"plan": "basic"}}
    with server.client() as client:
        id = client.post("/conversations", params={"wait": True}, json=said).json()["conversation"]
        (flow,) = client.get(f"/conversations/{id}/context-flow").json()["items"]
        assert (flow["name"], flow["changes"][0]["source"], flow["changes"][0]["after"]) == ("plan", "caller", "basic")
        assert client.get("/conversations/none/context-flow").status_code == 404


def test_a_conversation_is_cancelled_and_forgotten(server: Server):
    with server.client() as client:
        id = client.post("/conversations", params={"wait": True}, json={"text": "a refund"}).json()["conversation"]
        assert client.delete(f"/conversations/{id}").status_code == 409
        assert client.post(f"/conversations/{id}/cancel", json={"reason": "enough"}).json() == {"cancelled": True}
        assert client.delete(f"/conversations/{id}").status_code == 204
        assert client.get(f"/conversations/{id}").status_code == 404


def test_the_team_is_described_and_drawn(server: Server):
    with server.client() as client:
        assert ids(client.get("/agents").json()["items"]) == ["triage", "billing", "manager", "research"]
        assert client.get("/agents/research").json()["pull"] is True
        drawn = client.get("/graph").json()
        assert drawn["members"][0]["place"]["id"] == "triage"
        assert drawn["arrows"][0]["label"]["width"] > 0
        assert "billing" in client.get("/graph", params={"format": "mermaid"}).text
        assert client.get("/graph", params={"format": "svg"}).headers["content-type"] == "image/svg+xml"
        assert client.get("/version").json()["team"] == "desk"
        assert client.get("/ready").json() == {"status": "ready"}
