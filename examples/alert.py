"""From an alert to a chat message: an event starts an urgent handoff, a person approves, and a chat is told.

The chat is a server on this machine, which gets a signed CloudEvent. Replies are scripted: no key, no network.

    python examples/alert.py
"""

import asyncio
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import SimpleQueue
from threading import Thread

from changeover import Agent, Approve, Team, tool
from changeover.bus import BusEvent, Specialist, Subscription, Webhook
from changeover.testing import ScriptedModel, calls, says

MESSAGES = SimpleQueue[str]()
MODEL = ScriptedModel({"security": [calls(("lock_account", {"user": "ada"})), says("Locked.")]})


class Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        MESSAGES.put(f"{'signed' if self.headers['webhook-signature'] else 'false'} event: {event['type']}")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None: ...


@tool(approval=True)
def lock_account(user: str) -> str:
    """Lock the account of a user."""
    return f"{user} is locked"


async def play(chat: str) -> None:
    security = Agent("security", capabilities=["security"], tools=[lock_account])
    alerts = Subscription("security.*", to=Specialist("security", task="Look at {data.summary}"), priority="urgent")
    ends = Subscription("changeover.run.completed", to=Webhook(chat, secret="${CHAT_SECRET}", allow_private=True))
    team = Team([security], model=MODEL, subscriptions=[alerts, ends])

    @team.bus.on("changeover.approval.waiting")
    async def person(event: BusEvent) -> None:
        [asked] = await team.approvals()
        print(f"{asked.agent} wants {asked.tool}({asked.arguments}); a person approves")
        await team.decide(asked, Approve(), by="approver on duty")

    async with team:
        await team.bus.publish("security.alert", {"severity": 9, "summary": "login from two countries"}, key="alert-17")
        print(f"the chat gets a {await asyncio.to_thread(MESSAGES.get)}")


def main() -> None:
    os.environ.setdefault("CHAT_SECRET", "a-secret-that-the-chat-knows")
    with HTTPServer(("127.0.0.1", 0), Chat) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(play(f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()


if __name__ == "__main__":
    main()
