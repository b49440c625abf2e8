"""What a response cost, as far as anybody knows."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse


def cost_of(response: ModelResponse) -> float | None:
    """In US dollars, by the provider's own word or by its price list; None, and not 0, if neither is known."""
    usage = response.usage
    if usage.cost is not None:
        return float(usage.cost)
    # Where no tokens were reported, a price of 0 would only look like one.
    if not response.model_name or not usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
