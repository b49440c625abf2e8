"""What survives word for word when messages are left out: decisions, figures, ids, files, open questions."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.handoffs.essentials import essentials
from changeover.handoffs.tokens import count
from changeover.messages import Assistant, Call, Message, Note, ToolResult, User, View
from tests.handoffs.planted_facts import FACTS, SMALL_TALK, SUPPORT, TELL_TALE, among, noise, small_talk


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", FACTS)
def test_ten_facts_among_sixty_messages_of_chatter_are_all_kept(kind: str, seed: int):
    kept = "\n".join(essentials(among(FACTS[kind], small_talk(50, seed), seed), 600))
    assert [tale for tale in TELL_TALE[kind] if tale not in kept] == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", FACTS)
def test_ten_facts_among_four_hundred_messages_full_of_numbers_are_all_kept(kind: str, seed: int):
    kept = "\n".join(essentials(among(FACTS[kind], noise(390, seed), seed), 1_500))
    assert [tale for tale in TELL_TALE[kind] if tale not in kept] == []


def test_a_fact_is_told_in_the_words_of_its_author():
    said = Assistant("billing", "Good news! The refund of $49.99 for ORD-1042 was approved. Have a nice day.")
    assert essentials([said]) == ("billing: The refund of $49.99 for ORD-1042 was approved.",)


def test_the_result_of_a_tool_is_told_as_fields_and_figures_as_they_were_written():
    result = {
        "order_id": "ORD-1042",
        "total": "49.90",
        "items": [{"sku": "AB-77", "qty": 2}, {"sku": "CD-12", "qty": 1}],
    }
    assert essentials([ToolResult("c", "lookup", "desk", json.dumps(result).replace('"49.90"', "49.90"))]) == (
        "lookup: order_id: ORD-1042, total: 49.90",
        "lookup: items.sku: AB-77, items.qty: 2",
        "lookup: items.sku: CD-12, items.qty: 1",
    )


def test_json_in_json_is_read_and_long_texts_in_it_are_sentences():
    letter = f"{'This goes on for quite a while. ' * 10}The parcel weighs 12.5 kg. Yours"
    text = json.dumps([{"type": "text", "text": json.dumps({"parcel_id": 4471, "letter": letter})}])
    assert essentials([ToolResult("c", "mail", "desk", text)]) == (
        "mail: text.parcel_id: 4471",
        "mail: The parcel weighs 12.5 kg.",
    )


def test_what_an_agent_called_a_tool_with_is_told_too():
    said = Assistant("billing", calls=(Call("c1", "refund", {"order": "ORD-1042", "amount": 49.9, "urgent": True}),))
    assert essentials([said]) == ("billing called refund: order: ORD-1042, amount: 49.9, urgent: true",)


def test_what_was_said_twice_is_told_once():
    messages: list[Message] = [
        User("My order is ORD-1042."),
        User("My order is ORD-1042."),
        Assistant("desk", "my order is ORD-1042"),
        ToolResult("c1", "lookup", "desk", '{"invoice": "INV-7781"}'),
        ToolResult("c2", "lookup", "desk", '{"invoice": "INV-7781"}'),
    ]
    assert len(essentials(messages)) == 2


def test_different_statements_about_one_thing_are_no_duplicates():
    messages: list[Message] = [User("ORD-1042 was empty."), Assistant("desk", "ORD-1042 was never scanned in Lyon.")]
    assert len(essentials(messages)) == 2


def test_amounts_that_differ_only_in_their_currency_are_no_duplicates():
    assert len(essentials([User("It was $5."), User("It was €5.")])) == 2


def test_the_oldest_comes_first():
    messages: list[Message] = [User("It was 14 EUR."), User("We decided to keep it."), User("See a.pdf.")]
    assert [line.removeprefix("user: ") for line in essentials(messages)] == [
        "It was 14 EUR.",
        "We decided to keep it.",
        "See a.pdf.",
    ]


@pytest.mark.parametrize(
    ("telling", "less"),
    [
        ("We decided to keep the sofa.", "Your sofa is number SOFA-1187 with us."),
        ("We decided to keep the sofa.", "It cost $1,200 on 14 March, see https://example.org/sofa-1187."),
        ("Your sofa is number SOFA-1187 with us.", "My sofa has been here for 12 years now."),
        ("The sofa was sold for 900 dollars.", "My sofa has been here for 12 years now."),
        ("It is all in plans/sofa.pdf for you.", "My sofa has been here for 12 years now."),
        ("Where should we put the sofa now?", "Your sofa is number SOFA-1187 with us."),
    ],
)
def test_where_not_everything_fits_the_more_telling_wins(telling: str, less: str):
    room = max(count(f"user: {telling}"), count(f"user: {less}")) + 2
    assert essentials([User(telling), User(less)], room) == (f"user: {telling}",)
    assert essentials([User(less), User(telling)], room) == (f"user: {telling}",)


def test_of_what_is_equally_telling_the_later_wins():
    messages: list[Message] = [User(f"It is parcel PX-{number}.") for number in range(1_000, 1_100)]
    kept = essentials(messages, 100)
    assert kept == tuple(f"user: It is parcel PX-{number}." for number in range(1_100 - len(kept), 1_100))
    assert len(kept) > 5


def test_numbers_that_only_count_what_is_being_said_are_nothing():
    text = "1. Open the lid\n2) Step 2 is next.\n- see page 4\nI tried option 3, twice.\nThat is 2 of 5.\n24/7"
    assert essentials([User(text)]) == ()


def test_chatter_is_nothing():
    assert essentials([User(text) for text in SMALL_TALK]) == ()


def test_numbers_in_passing_leave_most_of_the_room_empty():
    kept = essentials([User(text) for text in noise(200, 0)], 1_000)
    assert 0 < sum(map(count, kept)) <= 250


def test_a_question_is_open_only_in_the_last_messages():
    asked: list[Message] = [
        User("Which colour did I order?"),
        *map(User, SMALL_TALK),
        Assistant("desk", "Do you have the receipt?"),
    ]
    assert essentials(asked) == ("desk: Do you have the receipt?",)


def test_a_question_stays_open_while_tools_are_called():
    results = [ToolResult("c", "ping", "desk", "ok") for _ in range(10)]
    assert essentials([User("Which colour did I order?"), *results]) == ("user: Which colour did I order?",)


def test_courtesies_are_no_open_questions():
    assert essentials([Assistant("desk", "How can I help you today? Is there anything else?")]) == ()


def test_whether_something_was_decided_is_no_decision():
    asked: list[Message] = [User("Has it been decided who gets the old sofa?"), *map(User, SMALL_TALK)]
    assert essentials(asked) == ()


def test_what_is_stated_is_worth_more_than_what_was_asked():
    stated, asked = User("My parcel is PX-2203."), Assistant("desk", "Is your parcel PX-1187?")
    assert essentials([stated, asked, *map(User, SMALL_TALK)], 14) == ("user: My parcel is PX-2203.",)


def test_a_long_sentence_is_cut_around_what_it_holds():
    before, after = "and then this and that happened " * 40, "so it went on like that " * 40
    (kept,) = essentials([User(f"{before}until order ORD-1042 came {after}")])
    assert re.fullmatch(r"user: … [a-z ]+ until order ORD-1042 came so it [a-z ]+ …", kept)
    assert len(kept) < 200


def test_things_far_apart_in_one_long_line_are_all_kept_and_none_is_cut():
    ids = [f"ORD-{number}" for number in range(1_000, 1_050)]
    kept = essentials([ToolResult("c", "dump", "desk", (" blah" * 50 + " ").join(ids))], 5_000)
    assert re.findall(r"ORD-\d+", "\n".join(kept)) == ids


def test_a_long_address_is_kept_whole():
    url = "https://example.org/download?signature=" + "x1" * 250
    (kept,) = essentials([User(f"{'word ' * 100}{url} {'word ' * 100}")])
    assert url in kept


def test_a_sentence_that_a_mail_program_broke_into_lines_is_whole():
    text = (
        "Dear all,\n\nafter a long discussion on Tuesday we decided that the launch of the new\nshop is moved to 9 May."
    )
    assert essentials([User(text)]) == (
        "user: after a long discussion on Tuesday we decided that the launch of the new shop is moved to 9 May.",
    )


def test_short_forms_end_no_sentence():
    text = "Thanks a lot. Dr. Amsel sent invoice no. 4471 for approx. 20 kg. Bye!"
    assert essentials([User(text)]) == ("user: Dr. Amsel sent invoice no. 4471 for approx. 20 kg.",)


def test_one_long_log_does_not_drown_the_rest():
    log = "\n".join(f"2031-03-14 10:{n % 60:02}:07 worker WK-{n} charged $5 to card {n}{n}" for n in range(500))
    facts = [User(f"Parcel PX-{number} never came.") for number in range(10)]
    kept = essentials([*facts, ToolResult("c", "logs", "desk", log)], 800)
    assert kept[:10] == tuple(f"user: {fact.text}" for fact in facts)
    assert len(kept) > 15


def test_one_thing_told_again_and_again_does_not_drown_the_rest():
    nagging: list[Message] = [
        User(f"What about ORD-1042, {word}!") for word in re.findall(r"\w{4,}", " ".join(SMALL_TALK))
    ]
    kept = essentials([Assistant("desk", "It was handed to PX-77."), *nagging], 200)
    assert kept[0] == "desk: It was handed to PX-77."


STRANGE = {
    "nothing": "",
    "blanks": " " * 100_000,
    "line ends": "\n" * 100_000,
    "one letter": "a" * 100_000,
    "one digit": "7" * 100_000,
    "numbers": "12 " * 30_000,
    "figures": "1," * 50_000,
    "dots": "a." * 50_000,
    "slashes": "/a" * 50_000,
    "signs": "a@" * 50_000,
    "dashes": ("a-" * 400 + " ") * 100,
    "versions": ("1." * 400 + " ") * 100,
    "stops": ". " * 50_000,
    "decisions": "we decided that " * 6_000,
    "no line": "ORD-1042 is late " * 6_000,
    "brackets": "[" * 100_000,
    "deep": "[" * 900 + "]" * 900,
    "broken JSON": '[{"order_id": "ORD-1042", "total": 49.99}, ' * 2_000,
    "huge figure": f'{{"order_id": {"9" * 10_000}}}',
    "halves": "\ud800 ORD-1042 \udfff",
    "controls": "\x00ORD-1042\x1b[0m\x07 \x85 $5\x00",
    "turns": "\u202eORD-1042\u202c İ ORD-1043 ß",
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_whatever_a_text_is_nothing_breaks_and_the_room_suffices(text: str):
    messages: list[Message] = [
        User(text),
        Assistant("a", text),
        ToolResult("c", text[:50], "a", text),
        Note(text, author=text[:50]),
    ]
    kept = essentials(messages, 300)
    assert sum(map(count, kept)) <= 300
    assert not any("\n" in line for line in kept)


def test_a_call_with_a_number_beyond_all_bounds_breaks_nothing():
    (kept,) = essentials([Assistant("a", calls=(Call("c", "t", {"order_id": "ORD-1042", "n": 10**9_999}),))])
    assert "ORD-1042" in kept


@pytest.mark.parametrize("most", [0, -1, 1, 3])
def test_without_room_nothing_is_kept(most: int):
    assert essentials(SUPPORT, most) == ()


def test_the_messages_may_be_any_sequence():
    assert essentials(tuple(SUPPORT)) == essentials(View(SUPPORT)) == essentials(SUPPORT)
    assert essentials(View(SUPPORT, 1)) == essentials(SUPPORT[:1])


FRAGMENTS = """
ORD-1042|$49.99|14 March|12.5 %|we decided|must not|a/b/c.py|x@example.org|why?|#88|12|step 2|3 kg|10:30|. |! | |, |
- |the order is|number|{|}|"|[1]
"""
PIECES = st.sampled_from(FRAGMENTS.split("|"))
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=40).map(" ".join)
AUTHORS = st.sampled_from(["user", "desk", "billing"])
SAID = st.one_of(
    st.builds(User, TEXTS, AUTHORS),
    st.builds(Assistant, AUTHORS, TEXTS),
    st.builds(ToolResult, st.just("c"), AUTHORS, AUTHORS, TEXTS),
    st.builds(Note, TEXTS, AUTHORS),
)
TALKS = st.lists(SAID, max_size=12)


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@given(TALKS, st.integers(0, 200))
def test_essentials_stay_within_their_room(talk: list[Message], most: int):
    kept = essentials(talk, most)
    assert sum(map(count, kept)) <= most
    assert count("\n".join(kept)) <= most


@given(TALKS, st.integers(0, 200))
def test_the_same_messages_have_the_same_essentials(talk: list[Message], most: int):
    assert essentials(talk, most) == essentials(list(talk), most)


@given(TALKS)
def test_every_piece_stands_in_a_message_of_its_author_and_none_stands_there_twice(talk: list[Message]):
    kept = essentials(talk, 500)
    assert len(set(kept)) == len(kept)
    for line in kept:
        author, _, text = line.partition(": ")
        text = text.removeprefix("… ").removesuffix(" …")
        assert any(text in on_one_line(message.text) for message in talk if message.author == author)


KEYS = st.sampled_from(["id", "order", "order_id", "total", "note"])
SCALARS = st.sampled_from(["ORD-1042", "$5", "12 kg", "hello", "we decided it", 49.9, 10**7, True, None])
DOCUMENTS = st.recursive(
    st.dictionaries(KEYS, SCALARS, min_size=1),
    lambda inner: st.lists(inner, min_size=1, max_size=4) | st.dictionaries(KEYS, inner | SCALARS, min_size=1),
    max_leaves=10,
)


def fields_of(value: Any, path: tuple[str, ...] = ()) -> set[str]:
    match value:
        case dict():
            return {field for key, held in value.items() for field in fields_of(held, (*path, key))}
        case list():
            return {field for held in value for field in fields_of(held, path)}
        case _:
            return {f"{'.'.join(path[-2:])}: {value if isinstance(value, str) else json.dumps(value)}"}


@given(DOCUMENTS)
def test_every_piece_of_json_is_made_of_its_fields(document: Any):
    kept = essentials([ToolResult("c", "lookup", "desk", json.dumps(document))], 2_000)
    told = {field for line in kept for field in line.removeprefix("lookup: ").split(", ")}
    assert told <= fields_of(document)
    assert all(field in told for field in fields_of(document) if "ORD-1042" in field)
