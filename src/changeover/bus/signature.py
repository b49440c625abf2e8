"""Signatures of webhooks: HMAC-SHA256 over id, timestamp and content, in the headers of Standard Webhooks."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hashlib import sha256

from changeover.errors import SignatureRefused

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE = 300.0
"""Seconds by which the time of a signature may differ from now."""
ENCODED = "whsec_"
"""A secret that begins like this is the base64 of the key."""
VERSION = "v1,"


def signed(secret: str, id: str, at: float, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The headers that sign a request with these headers and this body."""
    timestamp = f"{at:.0f}"
    signature = VERSION + _digest(secret, id, timestamp, headers, body)
    return {ID: id, TIMESTAMP: timestamp, SIGNATURE: signature}


def checked_signature(secret: str, now: float, headers: Mapping[str, str], body: bytes) -> str:
    """The signature of a request; raises SignatureRefused if it has none, a wrong one or an old one."""
    if not secret:
        raise SignatureRefused("there is no secret to check the signature with")
    given = {name.lower(): value for name, value in headers.items()}
    if missing := [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]:
        raise SignatureRefused(f"the request lacks the header {', '.join(missing)}")
    id, timestamp = given[ID], given[TIMESTAMP]
    if not timestamp.isdecimal() or len(timestamp) > 12 or abs(now - int(timestamp)) > TOLERANCE:
        raise SignatureRefused(f"the timestamp is not within {TOLERANCE:g} s of now")
    expected = VERSION + _digest(secret, id, timestamp, headers, body)
    for each in given[SIGNATURE].split():
        # Compared in constant time: how long it takes reveals nothing about the right signature.
        if hmac.compare_digest(each.encode("utf-8", "replace"), expected.encode()):
            return expected
    raise SignatureRefused("the signature does not fit the request")


def _digest(secret: str, id: str, timestamp: str, headers: Mapping[str, str], body: bytes) -> str:
    content = b".".join([id.encode(), timestamp.encode(), _attributes(headers) + body])
    return b64encode(hmac.digest(_key(secret), content, sha256)).decode()


def _attributes(headers: Mapping[str, str]) -> bytes:
    """The attributes of a CloudEvent in the binary form, which stand in headers: they are signed with the body."""
    given = {name.lower(): value for name, value in headers.items() if name.lower().startswith("ce-")}
    return "".join(f"{name}:{value}\n" for name, value in sorted(given.items())).encode()


def _key(secret: str) -> bytes:
    if secret.startswith(ENCODED):
        try:
            return b64decode(secret.removeprefix(ENCODED), validate=True)
        except NotBase64:
            pass
    return secret.encode()
