"""The resources of the API, one module for each kind of thing, in the order in which their paths are matched."""

from changeover.server.resources import (
    agents,
    approvals,
    conversations,
    drawings,
    handoffs,
    runs,
    service,
    store,
    tasks,
    tickets,
)

MODULES = (service, runs, conversations, tasks, handoffs, tickets, approvals, agents, drawings, store)
RESOURCES = [each.resource for each in MODULES]
