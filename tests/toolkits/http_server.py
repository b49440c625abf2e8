"""A real HTTP server on loopback that says what it was sent, and misbehaves where its path asks for it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


class Seen(NamedTuple):
    """One request as the server read it."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: str


class Server(ThreadingHTTPServer):
    """Answers each path in its own way; `seen` holds every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[Seen] = []
        self.notes: list[str] = []
        """Method, path and idempotency key of every request, where a caller gives a list that outlives the server."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen = Seen(self.command, parts.path, parse_qs(parts.query), headers, body)
        self.server.seen.append(self.seen)
        self.server.notes.append(f"{self.command} {parts.path} {headers.get('idempotency-key', '')}".strip())
        page = parts.path.split("/")[1]
        getattr(self, f"page_{page}", self.page_echo)()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def answer(self, status: int, content: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def page_echo(self) -> None:
        self.answer(200, json.dumps(self.seen._asdict()).encode())

    def page_redirect(self) -> None:
        """/redirect/302?to=URL"""
        status = int(self.seen.path.split("/")[2])
        self.answer(status, b"", Location=self.seen.query["to"][0])

    def page_loop(self) -> None:
        self.answer(302, b"", Location=self.seen.path)

    def page_fails(self) -> None:
        """/fails/503/2 fails twice in this way, and then works; ?after=1 asks callers to wait."""
        _, _, status, times = self.seen.path.split("/")
        before = sum(seen.path == self.seen.path for seen in self.server.seen)
        if before <= int(times):
            after = {"Retry_After": self.seen.query["after"][0]} if "after" in self.seen.query else {}
            return self.answer(int(status), b'{"error": "not now"}', **after)
        return self.page_echo()

    def page_slow(self) -> None:
        time.sleep(1.0)
        with suppress(OSError):
            self.page_echo()

    def page_endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"on and on " * 1_000)

    def page_drip(self) -> None:
        """An answer that comes letter by letter and never ends."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b".")
                time.sleep(0.02)

    def page_broken(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True

    def page_image(self) -> None:
        self.answer(200, PNG, "image/png")

    def page_mislabelled(self) -> None:
        self.answer(200, b"not an image", "image/png")

    def page_bytes(self) -> None:
        self.answer(200, b"\xff\xfe\0\1", "application/octet-stream")

    def page_text(self) -> None:
        self.answer(200, "Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1")

    def page_lies(self) -> None:
        self.answer(200, b"<html>", "application/json")

    def page_zipped(self) -> None:
        self.answer(200, b"\x1f\x8b", "application/json", Content_Encoding="gzip")

    def page_empty(self) -> None:
        self.answer(204, b"")


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
