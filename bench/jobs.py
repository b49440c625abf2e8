"""A minimal job queue in a database, written by hand with its driver: one table, claims with a lease, results."""

from __future__ import annotations

import os
import sqlite3
import time
from multiprocessing.context import BaseContext
from typing import Any

import psycopg

TABLE = """CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload TEXT, priority INTEGER, at REAL, owner TEXT, until REAL,
 attempts INTEGER DEFAULT 0, result TEXT)"""
INDEX = "CREATE INDEX jobs_open ON jobs (priority DESC, at) WHERE owner IS NULL AND result IS NULL"
OPEN = "SELECT id FROM jobs WHERE owner IS NULL AND result IS NULL ORDER BY priority DESC, at LIMIT 8"
CLAIM = "UPDATE jobs SET owner = {0}, until = {0}, attempts = attempts + 1 WHERE id IN ({1}) RETURNING id, payload"
DONE = "UPDATE jobs SET result = {0}, until = NULL WHERE id = {0} AND owner = {0}"


class Gate:
    """A barrier for several processes and the process that times them."""

    def __init__(self, context: BaseContext, processes: int) -> None:
        self._barrier = context.Barrier(processes + 1)

    def wait(self) -> None:
        self._barrier.wait()


class Jobs:
    """The table of jobs, in SQLite or PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._sqlite = url.startswith("sqlite:")
        self._connection: Any
        if self._sqlite:
            self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
        else:
            self._connection = psycopg.connect(url, autocommit=True)
        mark = "?" if self._sqlite else "%s"
        locking = "" if self._sqlite else " FOR UPDATE SKIP LOCKED"
        self._claim, self._done = CLAIM.format(mark, OPEN + locking), DONE.format(mark)
        self._insert = f"INSERT INTO jobs (payload, priority, at) VALUES ({mark}, 0, {mark})"
        self._me = f"{os.getpid()}"

    def make(self, count: int) -> None:
        kind = "INTEGER PRIMARY KEY" if self._sqlite else "SERIAL PRIMARY KEY"
        self._connection.execute(TABLE.replace("INTEGER PRIMARY KEY", kind))
        self._connection.execute(INDEX)
        rows = [(f"job {number}", time.time()) for number in range(count)]
        cursor = self._connection.cursor()
        cursor.execute("BEGIN")
        cursor.executemany(self._insert, rows)
        cursor.execute("COMMIT")

    def claim(self) -> list[Any]:
        begun = "BEGIN IMMEDIATE" if self._sqlite else "BEGIN"
        self._connection.execute(begun)
        found = self._connection.execute(self._claim, (self._me, time.time() + 60)).fetchall()
        self._connection.execute("COMMIT")
        return list(found)

    def complete(self, id: int) -> None:
        self._connection.execute(self._done, ("done", id, self._me))

    def close(self) -> None:
        self._connection.close()


def fill(url: str, count: int) -> None:
    jobs = Jobs(url)
    jobs.make(count)
    jobs.close()


def serve(url: str, gate: Gate) -> None:
    """Claim and complete until nothing is left."""
    jobs = Jobs(url)
    gate.wait()
    while found := jobs.claim():
        for id, _ in found:
            jobs.complete(id)
    jobs.close()
