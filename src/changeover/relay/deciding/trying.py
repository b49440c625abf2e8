"""Experiments: which variant a conversation has, and the moment at which that matters for the first time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from changeover.agent.roster import Roster
from changeover.agent.trial import Trial
from changeover.handoffs.strategies import Strategy
from changeover.relay.commands import CallModel, Command, Record, RunChild
from changeover.relay.events import HandoffOffered, VariantChosen
from changeover.relay.state import State


def told_first(state: State, decision: Record | Sequence[Command], roster: Roster) -> Record | Sequence[Command]:
    """The decision; or, if a variant matters for it that nobody has recorded, that this one is chosen."""
    for subject, agent in _concerned(decision):
        trial = roster.trials.get((subject, agent))
        if trial is not None and trial.name not in state.variants:
            return _chosen(state, trial, agent)
    return decision


def strategy_in(state: State, receiver: str, otherwise: Strategy, roster: Roster) -> Strategy:
    """How much a receiver sees here, if that is tried out; else what is so otherwise."""
    trial = roster.trials.get(("strategy", receiver)) if roster.trials else None
    if trial is None:
        return otherwise
    # A variant that is recorded may have been given up since.
    found: Strategy = trial.variants.get(trial.chosen(state.root, state.variants), otherwise)
    return found


def receiver_in(state: State, sender: str, wanted: str, roster: Roster) -> str | Record:
    """Who is handed to here in place of whoever is wanted; or which variant that follows, which is recorded first."""
    trial = roster.trials.get(("receiver", wanted)) if roster.trials else None
    if trial is None or sender in trial.variants.values():
        return wanted
    if trial.name not in state.variants:
        return _chosen(state, trial, wanted)
    found = str(trial.variants.get(state.variants[trial.name], wanted))
    return wanted if found in roster.absent else found


def stands_in(agent: str, wanted: str, roster: Roster) -> bool:
    """Whether an agent may have been handed what was meant for the one that is wanted."""
    trial = roster.trials.get(("receiver", wanted)) if roster.trials else None
    return trial is not None and agent in trial.variants.values()


def _concerned(decision: Record | Sequence[Command]) -> Iterator[tuple[str, str]]:
    """What may be tried out in what is done next, and of whom."""
    if isinstance(decision, Record):
        if type(offer := decision.event) is HandoffOffered:
            yield "strategy", offer.receiver
        return
    for command in decision:
        # A delegate's is chosen before it begins: so all who work for this conversation have the same.
        if isinstance(command, CallModel | RunChild):
            agent = command.context.agent if isinstance(command, CallModel) else command.receiver
            yield "instructions", agent
            yield "model", agent


def _chosen(state: State, trial: Trial, agent: str) -> Record:
    return Record(VariantChosen(trial.name, trial.choose(state.root), state.task, agent))
