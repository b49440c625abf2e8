"""Routing: finds the agent that fits a task, and learns from outcomes.

`Team(routing=Routing(…), experiments=[Experiment(…)])` configures it; `team.router` finds agents and changes their
profiles.
"""

from changeover.routing.broker import Recommendation
from changeover.routing.experience import Learning, Standing
from changeover.routing.experiment import Experiment
from changeover.routing.profile import Profile
from changeover.routing.routing import Routing
from changeover.routing.verdict import Arm, Comparison, Verdict

__all__ = [
    "Arm",
    "Comparison",
    "Experiment",
    "Learning",
    "Profile",
    "Recommendation",
    "Routing",
    "Standing",
    "Verdict",
]
