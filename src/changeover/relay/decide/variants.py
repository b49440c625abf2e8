"""Experiments: which variant of a receiver, strategy, model or instructions applies, recorded before it matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from changeover.agent.roster import Roster, Trial
from changeover.handoffs.strategies import ContextStrategy, as_strategy
from changeover.relay.commands import CallModel, Command, Record, RunChild
from changeover.relay.events import HandoffOffered, VariantChosen
from changeover.relay.state import State


def record_first(state: State, decision: Record | Sequence[Command], roster: Roster) -> Record | Sequence[Command]:
    """The decision, or the variant that it depends on if the log does not hold that yet."""
    for subject, agent in _subjects(decision):
        trial = roster.trials.get((subject, agent))
        if trial is not None and trial.name not in state.variants:
            return _choose(state, trial, agent)
    return decision


def strategy_variant(state: State, receiver: str, default: ContextStrategy, roster: Roster) -> ContextStrategy:
    """The strategy that an experiment assigns to this receiver here, else the default."""
    trial = roster.trials.get(("strategy", receiver))
    if trial is None:
        return default
    # A recorded variant may have been removed from the experiment since.
    return as_strategy(trial.variants.get(trial.chosen(state.root, state.variants), default))


def receiver_variant(state: State, sender: str, wanted: str, roster: Roster) -> str | Record:
    """The receiver that an experiment puts in the place of `wanted`, or the record of its choice, which comes first."""
    trial = roster.trials.get(("receiver", wanted))
    if trial is None or sender in trial.variants.values():
        return wanted
    if trial.name not in state.variants:
        return _choose(state, trial, wanted)
    found = str(trial.variants.get(state.variants[trial.name], wanted))
    return wanted if found in roster.absent else found


def stands_in(agent: str, wanted: str, roster: Roster) -> bool:
    """True if an experiment may have given this agent what was meant for `wanted`."""
    trial = roster.trials.get(("receiver", wanted)) if roster.trials else None
    return trial is not None and agent in trial.variants.values()


def _subjects(decision: Record | Sequence[Command]) -> Iterator[tuple[str, str]]:
    """The subjects of experiments that a decision depends on, each with its agent."""
    if isinstance(decision, Record):
        if type(offer := decision.event) is HandoffOffered:
            yield "strategy", offer.receiver
        return
    for command in decision:
        # A delegate's variant is recorded by its parent, so that all delegates of one conversation get the same.
        if isinstance(command, CallModel | RunChild):
            agent = command.context.agent if isinstance(command, CallModel) else command.receiver
            yield "instructions", agent
            yield "model", agent


def _choose(state: State, trial: Trial, agent: str) -> Record:
    return Record(VariantChosen(trial.name, trial.choose(state.root), state.task, agent))
