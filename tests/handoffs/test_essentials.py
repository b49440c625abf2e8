"""What is quoted when messages are left out: what is unlike the rest, in any language, and what corrects it."""

import json
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


GERMAN = """
Guten Tag, danke für Ihre Nachricht.|Einen Moment bitte, ich schaue nach.|Kein Problem, gern.
|Das tut mir leid zu hören.|Ja, das verstehe ich gut.|Das Wetter ist heute wieder schlecht."""
GERMAN_FACTS = """
Meine Kundennummer ist KD-20931.|Die Lieferung geht nach Lindenweg 4 in Potsdam.
|Der Vertrag wird nur schriftlich verlängert."""
JAPANESE = """
お問い合わせありがとうございます。|少々お待ちください。|はい、わかりました。
|ご不便をおかけして申し訳ございません。|もう少し詳しく教えてください。|今日はいい天気ですね。"""
JAPANESE_FACTS = """
注文番号はAB-4471です。|配送先は大阪市北区梅田3丁目に変更してください。|夜九時以降は電話しないでください。"""


@pytest.mark.parametrize(
    ("chatter", "facts"),
    [(each.split("|"), facts.split("|")) for each, facts in ((GERMAN, GERMAN_FACTS), (JAPANESE, JAPANESE_FACTS))],
    ids=["german", "japanese"],
)
def test_facts_are_kept_in_any_language(chatter: list[str], facts: list[str]):
    talk = [User(text) for text in chatter * 8]
    for number, fact in enumerate(facts):
        talk.insert(5 + 12 * number, User(fact))
    kept = "\n".join(essentials(talk, 120))
    assert [fact for fact in facts if fact.strip().rstrip(".。") not in kept] == []


def test_a_fact_is_told_in_the_words_of_its_author():
    said = Assistant("billing", "The refund of $49.99 for ORD-1042 was approved.")
    assert essentials([said], 100) == ("billing: The refund of $49.99 for ORD-1042 was approved.",)


def test_the_result_of_a_tool_is_told_as_fields_with_their_place_and_figures_as_they_were_written():
    result = '{"order_id": "ORD-1042", "total": 49.90, "items": [{"sku": "AB-77", "qty": 2}, {"sku": "CD-12"}]}'
    assert essentials([ToolResult("c", "lookup", "desk", result)], 200) == (
        "lookup answered: order_id: ORD-1042, total: 49.90",
        "lookup answered: items[0]: sku: AB-77, qty: 2",
        "lookup answered: items[1]: sku: CD-12",
    )


def test_json_in_json_is_read_and_long_texts_in_it_are_sentences():
    letter = f"{'This goes on for quite a while. ' * 10}The parcel weighs 12.5 kg. Yours"
    text = json.dumps([{"type": "text", "text": json.dumps({"parcel_id": 4471, "letter": letter})}])
    kept = essentials([ToolResult("c", "mail", "desk", text)], 500)
    assert "mail answered: [0].text: parcel_id: 4471" in kept
    assert any("The parcel weighs 12.5 kg." in line for line in kept)


def test_what_an_agent_called_a_tool_with_is_told_too():
    said = Assistant("billing", calls=(Call("c1", "refund", {"order": "ORD-1042", "amount": 49.9, "urgent": True}),))
    assert essentials([said], 100) == ("billing called refund: order: ORD-1042, amount: 49.9, urgent: true",)


def test_what_was_said_twice_is_told_once():
    messages: list[Message] = [
        User("My order is ORD-1042."),
        User("My order is ORD-1042."),
        Assistant("desk", "my order is ORD-1042"),
    ]
    assert essentials(messages, 100) == ("desk: my order is ORD-1042",)


def test_the_oldest_comes_first():
    messages: list[Message] = [User("It was 14 EUR."), User("We decided to keep it."), User("See a.pdf.")]
    assert essentials(messages, 100) == ("user: It was 14 EUR.", "user: We decided to keep it.", "user: See a.pdf.")


CORRECTIONS = {
    "address": ("Please deliver it to 12 Harbour Street.", "Sorry, deliver it to 7 Mill Lane instead."),
    "dose": ("The dose of metformin is 500 mg twice.", "Correction: the metformin dose is 1,000 mg."),
    "german": ("Die Lieferadresse ist Lindenweg 4.", "Die neue Lieferadresse lautet Ahornallee 9."),
    "japanese": ("配送先の住所は大阪市北区です。", "配送先の住所は神戸市中央区に変わりました。"),
}


@pytest.mark.parametrize(("before", "after"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_an_outdated_statement_is_never_kept_without_the_one_that_corrects_it(before: str, after: str):
    talk: list[Message] = [
        User(before),
        *map(User, SMALL_TALK),
        User(after),
        *(Assistant("desk", text) for text in SMALL_TALK),
    ]
    for room in range(8, 60, 4):
        kept = "\n".join(essentials(talk, room))
        assert before not in kept or after in kept


def test_a_correction_of_what_was_told_before_is_kept_first():
    talk = [*map(User, SMALL_TALK), User("The metformin dose is 1,000 mg now."), User("Order ORD-1042 is of 4 May.")]
    assert essentials(talk, 16, ["user: The dose of metformin is 500 mg."]) == (
        "user: The metformin dose is 1,000 mg now.",
    )


def test_a_long_sentence_is_divided_and_no_part_of_it_is_lost():
    words = [f"word{number}" for number in range(400)]
    kept = essentials([User(" ".join(words))], 5_000)
    assert " ".join(line.removeprefix("user: ") for line in kept).split() == words
    assert max(map(len, kept)) < 260


def test_a_sentence_that_a_mail_program_broke_into_lines_is_whole():
    text = (
        "Dear all,\n\nafter a long discussion on Tuesday we decided that the launch of the new\nshop is moved to 9 May."
    )
    whole = "user: after a long discussion on Tuesday we decided that the launch of the new shop is moved to 9 May."
    assert whole in essentials([User(text)], 100)


def test_short_forms_end_no_sentence():
    assert essentials([User("Dr. Amsel sent no. 4471. Bye then!")], 100) == (
        "user: Dr. Amsel sent no. 4471.",
        "user: Bye then!",
    )


def test_one_long_log_does_not_drown_the_rest():
    log = "\n".join(f"2031-03-14 10:{n % 60:02}:07 worker WK-{n} charged $5 to card {n}{n}" for n in range(500))
    facts = [User(f"Parcel PX-{number} of {who} never came.") for number, who in enumerate(("Ana", "Bo", "Cy", "Dee"))]
    kept = essentials([*facts, ToolResult("c", "logs", "desk", log)], 400)
    assert kept[:4] == tuple(f"user: {fact.text}" for fact in facts)
    assert len(kept) > 6


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
    "stops": ". " * 50_000,
    "no line": "ORD-1042 is late " * 6_000,
    "brackets": "[" * 100_000,
    "deep": "[" * 900 + "]" * 900,
    "broken JSON": '[{"order_id": "ORD-1042", "total": 49.99}, ' * 2_000,
    "huge figure": f'{{"order_id": {"9" * 10_000}}}',
    "key twice": '{"a": "first", "a": "second"}',
    "halves": "\ud800 ORD-1042 \udfff",
    "controls": "\x00ORD-1042\x1b[0m\x07 \x85 $5\x00",
    "turns": "\u202eORD-1042\u202c İ ORD-1043 ß",
    "no blanks": "漢字" * 20_000,
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


@pytest.mark.parametrize("most", [0, -1, 1, 3])
def test_without_room_nothing_is_kept(most: int):
    assert essentials(SUPPORT, most) == ()


def test_the_messages_may_be_any_sequence():
    assert essentials(tuple(SUPPORT), 300) == essentials(View(SUPPORT), 300) == essentials(SUPPORT, 300)
    assert essentials(View(SUPPORT, 1), 300) == essentials(SUPPORT[:1], 300)


FRAGMENTS = """
ORD-1042|$49.99|14 March|12.5 %|we decided|must not|a/b/c.py|x@example.org|why?|#88|12|step 2|3 kg|10:30|. |! | |, |
- |the order is|number|{|}|"|[1]|住所は|です。
"""
PIECES = st.sampled_from(FRAGMENTS.split("|"))
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=40).map(" ".join)
AUTHORS = st.sampled_from(["user", "desk", "billing"])
SAID = st.one_of(
    st.builds(User, TEXTS),
    st.builds(Assistant, AUTHORS, TEXTS),
    st.builds(ToolResult, st.just("c"), AUTHORS, AUTHORS, TEXTS),
    st.builds(Note, TEXTS, AUTHORS),
)
TALKS = st.lists(SAID, max_size=12)


@given(TALKS, st.integers(0, 200))
def test_essentials_stay_within_their_room_and_are_always_the_same(talk: list[Message], most: int):
    kept = essentials(talk, most)
    assert count("\n".join(kept)) <= most
    assert essentials(list(talk), most) == kept


KEYS = st.sampled_from(["id", "order", "order_id", "total", "note"])
SCALARS = st.sampled_from(["ORD-1042", "$5", "12 kg", "hello", "we decided it", 49.9, 10**7, True, None])
DOCUMENTS = st.recursive(
    st.dictionaries(KEYS, SCALARS, min_size=1),
    lambda inner: st.lists(inner, min_size=1, max_size=4) | st.dictionaries(KEYS, inner | SCALARS, min_size=1),
    max_leaves=10,
)


def scalars(value: Any) -> set[str]:
    match value:
        case dict():
            return {field for held in value.values() for field in scalars(held)}
        case list():
            return {field for held in value for field in scalars(held)}
        case _:
            return {value if isinstance(value, str) else json.dumps(value)}


@given(DOCUMENTS)
def test_every_value_of_json_is_told(document: Any):
    kept = "\n".join(essentials([ToolResult("c", "lookup", "desk", json.dumps(document))], 4_000))
    assert [value for value in scalars(document) if value not in kept] == []
