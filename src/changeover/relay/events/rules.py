"""Rules of the team: they held, or could not be asked."""

from __future__ import annotations

from changeover.relay.events.recordable import Recordable


class RuleFired(Recordable, frozen=True, tag="rule_fired"):
    """A rule held: the agent hands over to whom it names, or what the agent wanted to hand over is judged by it."""

    rule: str
    agent: str
    task: int
    goto: str = ""
    message: str = ""
    """For that receiver."""
    call: str = ""
    """The call that it judges, if it does not go anywhere itself."""
    receiver: str = ""
    """To whom that call would lead."""
    reason: str = ""
    """Why it must not; if there is none, a person is asked."""

    @property
    def words(self) -> str:
        """What came of it, for people."""
        if self.goto:
            return f"by the rule {self.rule!r}, {self.agent} hands over to {self.goto}"
        judged = f"refuses it: {self.reason}" if self.reason else "wants a person asked"
        return f"the rule {self.rule!r} {judged}"


class RuleFailed(Recordable, frozen=True, tag="rule_failed"):
    """A rule could not say whether it holds: it leads nowhere, or nothing is handed over that it should judge."""

    rule: str
    agent: str
    task: int
    reason: str

    @property
    def words(self) -> str:
        """What is wrong with it, for people."""
        return f"the rule {self.rule!r} could not be judged: {self.reason}"
