"""Hooks: user functions that are called after an event is recorded. An error in a hook is logged and ignored."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import get_args

from changeover.handoffs.callback import arity_faults
from changeover.relay.events import Event
from changeover.relay.perform.callbacks import TROUBLE, let_go
from changeover.relay.stream import Recorded

logger = logging.getLogger("changeover.hooks")

Hook = Callable[[Recorded], Awaitable[None] | None]

ALIASES = {"agent_handoff": "handoff_accepted"}
EVENTS: dict[str, type] = {event.__struct_config__.tag: event for event in get_args(Event)}


def hook_faults(hooks: object) -> list[str]:
    """What is wrong with the hooks of a team: unknown events, and values that are not functions."""
    if not isinstance(hooks, Mapping):
        return [
            f"hooks={hooks!r} is not a dict; give a dict of events to functions, such as {{'agent_handoff': print}}"
        ]
    known = sorted({*EVENTS, *ALIASES})
    found = [f"hook {name!r} is not an event; choose one of {', '.join(known)}" for name in hooks if name not in known]
    found += [f"hook {name!r} is not a function" for name, hook in hooks.items() if not callable(hook)]
    return found + [f"the team {fault}" for name, hook in hooks.items() for fault in _arity_faults(name, hook)]


def _arity_faults(name: str, hook: object) -> list[str]:
    return arity_faults(f"the hook {name!r}", hook, "recorded")


class Hooks:
    """Calls the hooks of a team for recorded events, in the order of the events."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks: dict[type, list[Hook]] = {}
        for name, hook in hooks.items():
            self._hooks.setdefault(EVENTS[ALIASES.get(name, name)], []).append(hook)

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        for record in recorded:
            for hook in self._hooks.get(type(record.event), ()):
                await _call(hook, record)


async def _call(hook: Hook, record: Recorded) -> None:
    try:
        waiting = hook(record)
        if inspect.isawaitable(waiting):
            await waiting
    except TROUBLE as error:
        let_go(error)
        logger.exception("a hook failed on %s", record.id)
