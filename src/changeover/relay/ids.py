"""Ids inside a conversation, and the marks that follow the id of a call in them.

`5.0` is a call, and the handoff or the tool run that it became; `5.0+1` is the handoff of the same call to the next
receiver, after the first declined. Commands: `5.0@` finds a receiver, `5.0%` packs the context, `5.0^` asks the
receiver, `5.0?` asks whether approval is needed, `5.0!` waits for a person, `5.0~` cancels a delegate, `5.0<1` cleans
up after a rollback. Requests to people beside the approval of the call itself: `5.0=task`, `5.0=permission`,
`5.0=escalation`, and `5.0=rule1` for the first rule that wants one. `5.0=result` judges what a person returns and
`5.0=end` what the call would end the run with; one call may have both.
"""

from __future__ import annotations

import re

MARKS = re.compile(r"[+=?!^~%<@]")


def call_of(id: str) -> str:
    """The call that a command, a handoff or a request is about: what stands before the first mark."""
    return MARKS.split(id, maxsplit=1)[0]


def offered_again(id: str) -> str:
    """The handoff of the same call that comes after this one."""
    times = call_of(id.partition("+")[2])
    return f"{call_of(id)}+{int(times) + 1 if times.isdigit() else 1}"
