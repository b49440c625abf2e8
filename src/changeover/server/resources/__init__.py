"""The resources of the API, one module for each kind of thing, in the order in which their paths are matched."""

from changeover.server.resources import (
    agents,
    approvals,
    conversations,
    drawings,
    handoffs,
    live,
    runs,
    service,
    tasks,
    tickets,
)

MODULES = (service, runs, live, conversations, tasks, handoffs, tickets, approvals, agents, drawings)
RESOURCES = [each.resource for each in MODULES]
