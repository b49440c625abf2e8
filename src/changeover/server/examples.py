"""Examples of bodies and answers for the OpenAPI document, by the name of the struct, or by the route."""

from __future__ import annotations

from typing import Any

AT = 1_767_225_600.0
CLAIM = "1767225600.25~node-worker#5f0c1e9a77d2"
TICKET = {
    "id": "order-1042:3.0",
    "agent": "research",
    "conversation": "order-1042",
    "place": "order-1042/3.0",
    "root": "order-1042",
    "team": "desk",
    "priority": 10,
    "deadline": None,
    "at": AT,
}
PACKAGE: dict[str, Any] = {
    "protocol": "1.0",
    "task": {"description": "Find out when the parcel of order 1042 arrived."},
    "context": {"original_request": "I was charged twice.", "variables": {"order_id": "1042"}},
    "metadata": {"sender": "shop", "receiver": "research", "priority": "high"},
}
ME = {"user": "ana", "role": "operator", "agents": [], "roles": ["manager"], "all": False}

EXAMPLES: dict[str, Any] = {
    "Draft": {
        "document": {
            "type": "handoff",
            "to": "billing",
            "variables": [{"name": "order_id"}],
            "instructions": "Be quick.",
        }
    },
    "TeamText": {"text": "agents:\n  billing: {description: Sends money back}\n", "write": False},
    "Acceptance": {"claim": CLAIM, "estimated_completion": 60.0},
    "Begun": {"conversation": "order-1042", "run": "order-1042@1"},
    "CloudEvent": {
        "specversion": "1.0",
        "id": "alert-17",
        "source": "/monitors/3",
        "type": "security.alert",
        "data": {"severity": 9, "summary": "login from two countries"},
    },
    "Claimed": {"ticket": TICKET, "claim": CLAIM, "attempt": 1, "package": PACKAGE},
    "Completion": {"claim": CLAIM, "result": "It arrived on 12 May."},
    "Conditions": {"claim": CLAIM, "needs_more_context": ["the number of the parcel"]},
    "NewRun": {"inputs": {"version": "1.4.2"}, "conversation": "deploy-142"},
    "Decided": {"decision": {"type": "approve"}},
    "Failure": {"claim": CLAIM, "reason": "The carrier does not answer."},
    "Held": {"claim": CLAIM, "lease": 60.0},
    "IssuedToken": {
        "token": {
            "user": "ana",
            "role": "operator",
            "agents": [],
            "approval_roles": ["manager"],
            "everything": False,
            "expires_at": None,
            "id": "k3v9",
            "created_at": AT,
            "used_at": None,
            "revoked_at": None,
        },
        "secret": "chg_k3v9_SECRET",
    },
    "Me": ME,
    "Measure": {"name": "satisfaction", "value": 4.0},
    "NewConversation": {"text": "I was charged twice for order 1042.", "context": {"order_id": "1042"}},
    "NewEvent": {"type": "order.paid", "source": "till-7", "data": {"order": "1042"}},
    "NewMessage": {"text": "Can I have one payment back?"},
    "PackageHandoffPackage": PACKAGE,
    "PUT /declarations/{kind}/{name}": {"description": "Sends money back", "instructions": "Check the payment first."},
    "ProblemBody": {
        "type": "urn:changeover:problem:conversation-not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "no conversation has the id 'order-1043'",
        "instance": "6d17958c74d74536",
    },
    "NextReceiver": {"receiver": "billing", "reason": "No worker serves research today."},
    "Reason": {"reason": "The customer has called."},
    "Published": {"ids": ["5f0c1e9a77d2"]},
    "POST /bus": {"severity": 9, "summary": "login from two countries"},
    "Rejection": {"claim": CLAIM, "reason": "Not my field.", "suggested_alternative": "billing"},
    "Resend": {"subscriber": "security.* to billing"},
    "Return": {"claim": CLAIM, "reason": "This worker stops."},
    "Shown": {
        "seq": 2,
        "at": AT,
        "conversation": "order-1042",
        "task": "",
        "type": "user_spoke",
        "agent": "triage",
        "data": {"text": "I was charged twice for order 1042."},
    },
    "SignIn": {"token": "chg_k3v9_SECRET"},
    "Switch": {"state": "disabled"},
    "Ticket": TICKET,
    "Title": {"title": "Order 1042, charged twice"},
    "ToolTest": {"arguments": {"amount": 24.95}},
    "Wanted": {"agent": "research", "limit": 1, "lease": 60.0, "by": "node-worker"},
    "WantedContext": {"claim": CLAIM, "context": "context://0f343b0931126a20f133d67c2b018a3b"},
    "WantedToken": {"user": "ana", "role": "operator", "approval_roles": ["manager"]},
    "TaskQuery": {"task": "A customer wants a refund.", "n": 3},
}
