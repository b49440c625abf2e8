"""A proxy between a provider's client and the LLM server that records every request.

The LLM server's own journal gives all requests one form, in which the files are left out.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EVENTS = "application/vnd.amazon.eventstream"


class Wire:
    """Where clients send their requests, and what they sent."""

    def __init__(self, beyond: str) -> None:
        self.beyond = beyond
        self.bodies: list[dict[str, Any]] = []
        self.url = ""


@contextmanager
def wired(beyond: str) -> Iterator[Wire]:
    """A server on a free port of the loopback that passes on to another; it ends with the block."""
    wire = Wire(beyond)

    class Passing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            wire.bodies.append(json.loads(body))
            status, kind, answer = _passed_on(wire.beyond + self.path, body)
            if kind == EVENTS:
                answer = _without_empty_starts(answer)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    server.daemon_threads = True
    wire.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield wire
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _without_empty_starts(stream: bytes) -> bytes:
    """Amazon begins no block of text with an event of its own, the LLM server does, and Amazon's client refuses it."""
    kept = b""
    while stream:
        size = int.from_bytes(stream[:4], "big")
        frame, stream = stream[:size], stream[size:]
        kept += b"" if b'"start":{}' in frame else frame
    return kept


def _passed_on(url: str, body: bytes) -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Authorization": "Bearer any"})
    request.add_header("x-api-key", "any")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"] or "text/plain", error.read()
