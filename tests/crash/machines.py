"""How the state machines of this folder are run."""

import gc
from collections.abc import Callable

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    """Let a machine do what it likes, so many times and so many steps each."""
    # Hypothesis reads the machine's source first, and CPython 3.11 stumbles over that (a SystemError about the depth of
    # a syntax tree) if what earlier tests left behind is collected meanwhile and has something to say.
    gc.collect()
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def assert_same(one: Callable[[], set[str]], other: Callable[[], set[str]], wrong: str, looks: int = 1) -> None:
    """Both see the same; where something may be recorded between one look and the other, in one of so many looks."""
    for _ in range(looks - 1):
        if one() == other():
            return
    assert one() == other(), wrong
