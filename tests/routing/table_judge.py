"""A judge that answers from a table: right in most cases, wrong in a few, and now and then with no number at all."""

from collections.abc import Sequence

from changeover.routing.profile import Profile
from tests.routing.sample_tasks import TASKS

MISTAKES = {
    "When is my salary paid?": "billing",
    "A report on how many parcels come back, by month": "shipping",
    "What does the second law of thermodynamics say?": "legal",
}
INVENTED = {
    "Tell me a joke about penguins": "Why do penguins carry fish in their beaks? Because they have no pockets.",
    "A recipe for lentil soup, please": "The cook, agent 9.",
}


def answer(task: str, candidates: Sequence[Profile]) -> str:
    """What the judge says when it is asked about a task of the set."""
    if task in INVENTED:
        return INVENTED[task]
    [right] = [each.right for each in TASKS if each.text == task]
    chosen = [MISTAKES[task]] if task in MISTAKES else right
    numbers = [str(number) for number, profile in enumerate(candidates, 1) if profile.id in chosen]
    return numbers[0] if numbers else "NONE"
