"""Guards, limits, approvals and rules: what decides whether work may go on.

`Team(guards=[…])` takes `Deadlock`, `CircuitBreaker` and guards of your own (`Guard`), `Team(rules=[…])` takes rules,
and `Agent(checks=[…])` takes functions that judge a `Content`.
"""

from changeover.faults import Circuit
from changeover.guards.breaker import CircuitBreaker
from changeover.guards.checks import Content, Replace
from changeover.guards.deadlock import Deadlock
from changeover.guards.guard import Allow, Ask, Deny, Facts, Guard, Offer, Passed, Tripped
from changeover.guards.rules import Rule, VariablesAre

__all__ = [
    "Allow",
    "Ask",
    "Circuit",
    "CircuitBreaker",
    "Content",
    "Deadlock",
    "Deny",
    "Facts",
    "Guard",
    "Offer",
    "Passed",
    "Replace",
    "Rule",
    "Tripped",
    "VariablesAre",
]
