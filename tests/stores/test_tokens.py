"""Tokens and audit on every store: secrets are shown once, and refused once they are unknown, expired or revoked."""

import asyncio
import time
from threading import Lock

import pytest

from changeover.errors import MisconfiguredError, TokenRefused
from changeover.relay.ports.log import Log
from changeover.relay.ports.tokens import Audited, NewToken, digest_of
from changeover.stores.memory.table import MemoryTable
from changeover.stores.tables import AUDIT, TOKENS
from changeover.stores.tokens import StoredAudit, StoredTokens
from tests.stores.conftest import Opened
from tests.stores.entries import query

ADA = NewToken(user="ada", role="approver", approval_roles=("manager", "boss"), everything=True)


async def test_a_token_is_known_by_its_secret(log: Log):
    token, secret = await log.tokens.issue(ADA, by="root")
    assert secret.startswith(f"chg_{token.id}_")
    held = await log.tokens.holder(secret)
    assert (held.id, held.user, held.role, held.approval_roles) == (token.id, "ada", "approver", ("manager", "boss"))
    assert (held.everything, held.agents, held.expires_at) == (True, (), None)


async def test_no_store_keeps_a_secret(shared_store: str, opened: Opened):
    log = opened(shared_store)
    token, secret = await log.tokens.issue(ADA, by="root")
    stored = str([query(shared_store, f"SELECT * FROM {name}") for name in ("tokens", "audit")])
    assert digest_of(secret) in stored
    assert secret.rpartition("_")[2] not in stored
    assert token.digest == digest_of(secret)
    assert [each.digest for each in await log.tokens.all()] == [""]


@pytest.mark.parametrize("secret", ["", "chg_", "chg_nobody_x", "Bearer", "chg_\0_x", "chg_ä_x", "chg_\ud800_x"])
async def test_an_unknown_secret_is_refused(log: Log, secret: str):
    await log.tokens.issue(ADA, by="root")
    with pytest.raises(TokenRefused, match="not known"):
        await log.tokens.holder(secret)


async def test_the_id_of_a_token_is_no_secret(log: Log):
    token, secret = await log.tokens.issue(ADA, by="root")
    for wrong in (f"chg_{token.id}_", f"chg_{token.id}_{'x' * 43}", secret + "x", secret[:-1]):
        with pytest.raises(TokenRefused, match="not known"):
            await log.tokens.holder(wrong)


async def test_a_revoked_token_is_refused_and_stays_listed(log: Log):
    token, secret = await log.tokens.issue(ADA, by="root")
    assert await log.tokens.revoke(token.id, by="bob")
    assert not await log.tokens.revoke(token.id, by="bob")
    assert not await log.tokens.revoke("nobody", by="bob")
    with pytest.raises(TokenRefused, match="was revoked"):
        await log.tokens.holder(secret)
    [listed] = await log.tokens.all()
    assert listed.revoked_at is not None


async def test_a_token_expires(log: Log):
    end = time.time() + 1
    wanted = NewToken(user="ada", role="viewer", expires_at=end)
    _, secret = await log.tokens.issue(wanted, by="root")
    assert (await log.tokens.holder(secret)).user == "ada"
    await asyncio.sleep(max(0.0, end - time.time()) + 0.05)
    with pytest.raises(TokenRefused, match="has expired"):
        await log.tokens.holder(secret)


async def test_every_change_is_audited_with_its_actor(log: Log):
    token, _ = await log.tokens.issue(ADA, by="root", token="t1")
    await log.tokens.revoke(token.id, by="bob")
    rows = await log.lists.listed(Audited, sort="at")
    assert [(row.actor, row.token, row.action, row.subject) for row in rows] == [
        ("root", "t1", "token.issue", token.id),
        ("bob", "", "token.revoke", token.id),
    ]
    assert rows[0].detail["user"] == "ada"
    assert rows[0].detail["role"] == "approver"
    assert [row.actor for row in await log.lists.listed(Audited, {"action": "token.revoke"})] == ["bob"]


async def test_a_use_is_recorded_once_a_minute():
    now, lock = [1000.0], Lock()
    audit = StoredAudit(MemoryTable(AUDIT, lock), lambda: now[0])
    tokens = StoredTokens(MemoryTable(TOKENS, lock), audit, lambda: now[0])
    _, secret = await tokens.issue(ADA, by="root")
    used = []
    for at in (1000.0, 1030.0, 1059.9, 1060.0, 1061.0):
        now[0] = at
        used.append((await tokens.holder(secret)).used_at)
    assert used == [1000.0, 1000.0, 1000.0, 1060.0, 1060.0]


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (NewToken(user=" ", role="viewer"), "needs the name of its user"),
        (NewToken(user="a", role="boss"), "'boss' is no role; there are: worker, viewer"),  # type: ignore[arg-type]
        (NewToken(user="a", role="worker"), "names the agents whose tickets it claims"),
        (NewToken(user="a", role="admin", agents=("x",)), "only the token of a worker names agents"),
        (NewToken(user="a", role="viewer", approval_roles=("",)), "are not empty"),
        (NewToken(user="a", role="viewer", expires_at=1.0), "expires in the future"),
        (NewToken(user="a", role="viewer", expires_at=float("inf")), "expires in the future"),
    ],
)
async def test_a_token_that_cannot_work_is_refused_before_it_is_made(log: Log, wanted: NewToken, fault: str):
    with pytest.raises(MisconfiguredError, match=fault):
        await log.tokens.issue(wanted, by="root")
    assert (await log.tokens.all(), list(await log.lists.listed(Audited))) == ([], [])
