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
"""Seconds of a clock that also runs while the process or the machine sleeps."""


class Lease:
    """The lease of one open store. A process that loses it takes a new one, under the next epoch, and owns nothing."""

    def __init__(self, sql: LeaseStatements, seconds: float) -> None:
        self._sql, self._seconds = sql, seconds
        self._host, self._pid = socket.gethostname(), os.getpid()
        self._id = f"{self._host}-{self._pid}-{os.urandom(3).hex()}"
        self.epoch = 0
        """Number of leases that were taken; a new number means that the one before was lost."""
        self._until = inf
        """The time until which it certainly holds, by the local clock; infinite before the first lease."""
        self.owner = f"{self._id}/0"
        """The name of this process in the column `owner`."""
        self._renew_at = 0.0

    @property
    def valid(self) -> bool:
        return _elapsed() < self._until

    @property
    def due_in(self) -> float | None:
        """Seconds until it should be renewed; None before the first lease."""
        return max(0.0, self._renew_at - _elapsed()) if self.epoch else None

    @property
    def is_due(self) -> bool:
        """True if it should be taken or renewed now."""
        return not self.epoch or _elapsed() >= self._renew_at

    def hold(self, session: Session) -> None:
        """Renew it, or take a new one if it was lost or never taken."""
        # Read before the database reads its clock: the local lease may end sooner than the stored one, never later.
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
        """Note that the lease does not hold any more."""
        self._until = self._renew_at = 0.0

    def give_up(self, session: Session) -> None:
        """Release all conversations and delete the lease."""
        if self.epoch:
            session.begin()
            session.run([self._sql.release(me=self.owner), self._sql.leave(id=self._id)])
            session.commit()
            self.lost()
