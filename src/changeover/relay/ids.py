"""Ids inside a conversation, and the marks that follow the id of a call in them.

`5.0` is a call, and the handoff or the tool run that it became; `5.0+1` the handoff to the next receiver, after the
first did not want it; `5.0@` finds out who is asked, `5.0%` makes what a receiver gets of the context, `5.0^` asks a
receiver, `5.0?` whether a person must be asked, `5.0!` waits for the person, `5.0~` calls a delegate back, `5.0<1`
cleans up after a handoff that was rolled back; `5.0=task`, `5.0=permission` and `5.0=escalation` are what a person is
asked beside an approval of the call itself, and `5.0=rule1` what the first rule wants asked that judges it;
`5.0=result` judges what a person brings back, `5.0=end` what the call would end the run with: both may be of one call.
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
