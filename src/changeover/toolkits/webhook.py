"""Sends the body of a webhook, under the address rules of HTTP tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from changeover.toolkits.result_text import CallFailed, TemporaryFailure, words

if TYPE_CHECKING:
    from changeover.bus.subscription import Webhook
    from changeover.toolkits.connections import Connections

MOST = 10_000
"""Bytes of an answer that are read."""


async def post(connections: Connections, webhook: Webhook, headers: Mapping[str, str], body: bytes) -> None:
    """Send a body to an address; raises CallFailed unless the status is from 200 to 299. Redirects are not followed."""
    try:
        async with asyncio.timeout(webhook.timeout):
            await connections.run(lambda: _exchange(connections, webhook, headers, body))
    except TimeoutError:
        raise TemporaryFailure(f"{webhook.url} did not answer within {webhook.timeout:g} s") from None


async def _exchange(connections: Connections, webhook: Webhook, headers: Mapping[str, str], body: bytes) -> None:
    import httpx2

    from changeover.toolkits.network import read_body

    limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), webhook.timeout)}
    everything = {"User-Agent": "changeover", "Accept-Encoding": "identity", **headers}
    try:
        sent = httpx2.Request("POST", webhook.url, headers=everything, content=body, extensions=limits)
        response = await connections.transport(webhook.allow_private).handle_async_request(sent)
        try:
            if not 200 <= response.status_code < 300:
                said = (await read_body(response, MOST)).decode(errors="replace")
                reason = f"{webhook.url} answered {response.status_code} {response.reason_phrase}: {said[:500]}"
                raise TemporaryFailure(connections.vault.redact(reason.rstrip(": ")))
        finally:
            await response.aclose()
    except httpx2.InvalidURL as error:
        raise CallFailed(f"the address {webhook.url} cannot be reached: {words(error)}") from error
    except httpx2.TransportError as error:
        raise TemporaryFailure(f"{webhook.url} could not be reached or broke off: {words(error)}") from error
