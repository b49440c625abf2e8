"""The resources of the API, one module for each kind of thing, in the order in which their paths are matched."""

from changeover.server.resources import (
    agents,
    approvals,
    bus,
    contents,
    conversations,
    declarations,
    docs,
    drafts,
    drawings,
    exchange,
    export,
    figures,
    handoffs,
    live,
    occurrences,
    prompts,
    queue,
    routing,
    runs,
    schedules,
    service,
    store,
    tasks,
    tickets,
    tokens,
    tools,
    workflows,
)

# Conversations come after resources whose paths begin with theirs: ids of conversations may contain slashes.
MODULES = (service, docs, runs, contents, figures, live, workflows, conversations, tasks, handoffs, tickets)
BESIDE = (approvals, agents, occurrences, queue, export, prompts, drawings, routing)
DECLARED = (drafts, declarations, exchange, tokens, tools, store)
EVENTS = (bus, schedules)
RESOURCES = [each.resource for each in (*MODULES, *BESIDE, *DECLARED, *EVENTS)]
