"""Leases: how long a process owns the conversations it works on."""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from math import inf

from changeover.stores.sql.database import Session
from changeover.stores.sql.statements import LeaseStatements

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

_elapsed = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
"""Seconds that also pass while this process, or the whole machine, is stopped."""


class Lease:
    """One for each open store. Whoever loses it begins again under the next epoch, and owns nothing then."""

    def __init__(self, sql: LeaseStatements, seconds: float) -> None:
        self._sql, self._seconds = sql, seconds
        self._host, self._pid = socket.gethostname(), os.getpid()
        self._id = f"{self._host}-{self._pid}-{os.urandom(3).hex()}"
        self.epoch = 0
        """How often it was taken; a different one means that it was lost in between."""
        self._until = inf
        """Until when it certainly holds, by our own clock; for ever before it was first taken."""
        self.owner = f"{self._id}/0"
        """As this process is named where it owns something."""
        self._renew_at = 0.0

    @property
    def valid(self) -> bool:
        return _elapsed() < self._until

    @property
    def due_in(self) -> float | None:
        """How long until it should be renewed; None before it was first taken."""
        return max(0.0, self._renew_at - _elapsed()) if self.epoch else None

    @property
    def is_due(self) -> bool:
        """Whether it should be renewed now, or taken."""
        return not self.epoch or _elapsed() >= self._renew_at

    def hold(self, session: Session) -> None:
        """Renew it, or take a new one if it was lost or never taken."""
        # Looked at before the database looks at its own clock: ours may run out sooner than theirs, never later.
        begun = _elapsed()
        self._renew_at = begun + self._seconds / 10  # if this fails
        session.begin()
        epoch = self.epoch
        if not epoch or not session.run([self._sql.renew(id=self._id, epoch=epoch, lease=self._seconds)])[0]:
            epoch += 1
            who = {"id": self._id, "host": self._host, "pid": self._pid}
            session.run([self._sql.register(**who, epoch=epoch, lease=self._seconds)])
        session.commit()
        self.epoch, self.owner = epoch, f"{self._id}/{epoch}"
        self._until, self._renew_at = begun + self._seconds, begun + self._seconds / 3

    def lost(self) -> None:
        """Somebody saw that it does not hold any more."""
        self._until = self._renew_at = 0.0

    def give_up(self, session: Session) -> None:
        """Own nothing any more, and be gone."""
        if self.epoch:
            session.begin()
            session.run([self._sql.release(me=self.owner), self._sql.leave(id=self._id)])
            session.commit()
            self.lost()
