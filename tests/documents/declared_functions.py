"""Functions and classes that documents of the tests may name."""

from pydantic import BaseModel

from changeover import tool


def look(order: str) -> str:
    """Look an order up."""
    return order


@tool(name="refund", retries=1, approval=True)
def pay_back(amount: float) -> str:
    """Pay money back."""
    return f"{amount}"


def is_open(context: object) -> bool:
    return True


def is_large(context: object, arguments: object) -> bool:
    return False


def judge(text: object) -> bool:
    return True


def instruct(context: object) -> str:
    return "Be brief."


def noted(context: object) -> str:
    """Take a note."""
    return "noted"


def packed(handover: object) -> str:
    return "all of it"


class Lead(BaseModel):
    """A customer to be."""

    lead_id: str
    score: int = 0
