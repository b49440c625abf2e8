"""Arguments that the offline model finds in a user's words."""

import pytest

from changeover.models.offline.arguments import Known, fill

DEFINED = {"Size": {"enum": ["big", "small"]}}
ARGUMENTS = [
    ({"order_id": {"type": "string"}}, "where is order A-1042?", "A-1042"),
    ({"order_id": {"type": "string"}}, "where is #1042?", "1042"),
    ({"orderId": {"type": "string"}}, "I paid invoice 77 and order number 1042", "1042"),
    ({"payment_id": {"type": "string"}}, "order 1042 was paid with pay_72", "pay_72"),
    ({"payment_id": {"type": "string"}}, "order 1042", None),
    ({"ticket": {"type": "string"}}, "close ticket 4711 please", "4711"),
    ({"booking_code": {"type": "string"}}, "my booking code is QX7-12", "QX7-12"),
    ({"customer_no": {"type": "integer"}}, "I am customer 5000", 5000),
    ({"amount": {"type": "number"}}, "I paid 1299.50 EUR for order 1042", 1299.5),
    ({"amount": {"type": "number"}}, "send back €24,95", 24.95),
    ({"amount": {"type": "number"}}, "order 1042", None),
    ({"quantity": {"type": "integer"}}, "2026-01-31 at 10:30: 3 chairs, quantity 12", 12),
    ({"start_date": {"type": "string"}}, "from 2026-01-31 on", "2026-01-31"),
    ({"email": {"type": "string"}}, "write to ada@example.org.", "ada@example.org"),
    ({"name": {"type": "string"}}, 'call it "Blue Moon"', "Blue Moon"),
    ({"city": {"type": "string"}}, "the weather in New York tomorrow", "New York"),
    ({"size": {"enum": ["small", "extra_large"]}}, "one extra large please", "extra_large"),
    ({"urgent": {"type": "boolean"}}, "this is urgent", True),
    ({"urgent": {"type": "boolean"}}, "it is not urgent", False),
    ({"urgent": {"type": "boolean"}}, "hello", None),
    ({"task": {"type": "string"}}, 'compare "a" and "b"', 'compare "a" and "b"'),
    ({"size": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Size"}]}}, "the big one", "big"),
    ({"parcel_id": {"type": "string"}}, "it came with ord-12", None),
    ({"anything": {"type": "object"}}, "what you like", None),
]


@pytest.mark.parametrize(("properties", "said", "expected"), ARGUMENTS)
def test_an_argument_is_found_in_the_users_words(properties, said, expected):
    (name,) = properties
    schema = {"properties": properties, "required": [name], "$defs": DEFINED}
    args, missing = fill(schema, Known(said))
    assert (args.get(name), missing) == (expected, [] if expected is not None else [name])


def test_a_context_variable_need_not_be_asked_for():
    schema = {"properties": {"order_id": {"type": "string"}, "note": {"type": "string"}}, "required": ["order_id"]}
    assert fill(schema, Known("pay it back", variables={"order_id": "7", "note": 5})) == ({"order_id": "7"}, [])
    assert fill(schema, Known("and order 8?", variables={"order_id": "7"})) == ({"order_id": "8"}, [])
    chosen = {"properties": {"size": {"enum": ["big"]}}}
    assert fill(chosen, Known("", variables={"size": "huge"})) == ({}, [])


def test_an_optional_argument_is_not_guessed():
    optional = {"limit": {"type": "integer"}, "city": {"type": "string"}, "date": {"type": "string"}}
    assert fill({"properties": optional}, Known("room 12 in Rome")) == ({}, [])
    said = Known("limit 5, city: Rome, on 2026-01-31")
    assert fill({"properties": optional}, said) == ({"limit": 5, "city": "Rome", "date": "2026-01-31"}, [])
