"""Salience: scores a sentence by the decisions, figures, ids, file names and addresses in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct


def _split(text: str) -> list[str]:
    return text.split()


MONTHS = _split(
    "jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august september"
    " october november december"
)

CURRENCIES = _split(
    "usd eur gbp chf jpy cny inr cad aud nzd sek nok dkk pln czk huf brl mxn zar sgd hkd krw $ € £ ¥ ₹ ₽ ₩ ₪"
    " dollar dollars euro euros pound pounds cent cents pence franc francs yen rupee rupees bucks"
)

HOURS = _split("am pm a.m p.m o'clock utc gmt cet cest est edt pst pdt bst")

UNITS = _split(
    "g kg mg ton tons tonnes lb lbs oz m km cm mm mile miles ft inch inches l ml litre litres liter liters"
    " b kb mb gb tb kib mib gib tib mbit gbit kbps mbps gbps hz khz mhz ghz w kw kwh volt volts ms rpm px"
    " unit units piece pieces pcs item items boxes pallet pallets parcels licence licences license licenses seat seats"
    " user users row rows record records token tokens request requests night nights copies core cores cpu cpus"
    " replica replicas node nodes share shares employees guest guests passengers room rooms invoices orders"
    " thousand million billion"
)

ENDINGS = _split(
    "py pyi ipynb md rst txt csv tsv json jsonl yaml yml toml ini cfg conf env lock log xml htm html css js jsx ts tsx"
    " mjs vue sql db sqlite parquet pdf doc docx xls xlsx ppt pptx odt ods rtf eml ics png jpg jpeg gif svg webp tif"
    " tiff heic mp3 mp4 wav mov zip gz tgz tar 7z rar bak pem crt key sh bat ps1 exe dll jar java kt go rs rb php cpp"
    " hpp cs swift lua proto tf diff patch"
)
"""Endings of file names."""

NUMBERED = _split(
    "order ticket invoice customer client account acct case booking reservation receipt transaction tracking shipment"
    " parcel policy contract claim serial item product part user member employee patient flight passport licence"
    " license po pr issue bug job build commit request incident confirmation session trace batch lot coupon voucher"
    " extension port zip postcode room gate payment card vat model revision record document project task device asset"
    " meter phone version release"
)
"""Nouns that usually have an identifying number."""

NUMBERS = _split("no nos nr number numbers num code key ending ends")
"""Words for such a number; they may also count something."""

IDS = _split("id ids uuid guid sku iban pin pnr serial ref reference hash sha token")
"""Words for a number that always identifies."""

LINKS = frozenset(_split("is was are in with"))
"""Words that may stand between a noun and its number."""

STEPS = frozenset(
    _split(
        "step option part page section chapter figure question point phase round attempt level tip answer"
        " message number top line item"
    )
)
"""Words before a small number that is only a place in a list."""

DECISION = (
    r"decid\w+|decision|agreed|agreement|chose|chosen|opt(?:ed)? (?:for|to)|settled|settle on|sign(?:s|ed)? off"
    r"|approv\w+|reject(?:ed|s)|declined|refused|turned down|accepted|authori[sz]ed|waived|cancel+ed|went for"
    r"|(?:go|goes|going|went) (?:ahead )?with|rule[ds]? out|resolved to|voted|consensus|conclu(?:ded|sion)|the plan is"
    r"|must(?:n['\u2019]t| not| never)|may (?:not|never)|(?:nobody|no one) (?:[\w ]{1,40} )?may|not allowed"
    r"|not permitted|forbidden|prohibited|mandatory|under no circumstances|in no case|no longer|instead of|rather than"
    r"|in favou?r of|final(?:ised|ized)|verdict|veto(?:ed)?"
    r"|^(?:please |so |and |but )?(?:do not|don['\u2019]t|never|always)(?= (?!worry|mind|hesitate|know|think))"
)
"""Phrases that decide or forbid something."""

RESOLVE = (
    r"we(?: will|['\u2019]ll| are going to|['\u2019]re going to)(?= (?!see|look|get back|be |check|let you|try|do our))"
    r"|will not|won['\u2019]t|must(?! be| have)|(?<!that )(?<!you )(?<!it )must be|shall|confirmed|promised|guaranteed"
    r"|picked(?! up)|no later than|at the latest|insist(?:s|ed)?|prefer(?:s|red)?|only (?:if|wants?)"
    r"|does(?:n['\u2019]t| not) want|let(?:['\u2019]s| us)(?= (?!see|look|check|try|know|have))"
)
"""Phrases that state a wish or a plan."""

DAYS = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight"
    f"|(?:in|to|by|until|till|before|after|from|since) (?:{'|'.join(MONTHS)})"
)

MEANING = (
    r"due|deadline|expir\w+|limit\w*|cap|capped|quota|budget|(?:sub)?total|balance|threshold|max\w*|min|minim\w+"
    r"|at most|at least|up to|no more than|costs?|price[ds]?|fees?|discount\w*|rate|paid|pays?|charg\w+"
    r"|refund\w*|owe[sd]?|amount|address|phone|password|port|deposit|salary|stock|left|remaining|capacity"
    r"|quantity|qty|size|version|timeout|weight|dose"
)
"""Phrases that give a figure in the same sentence its meaning."""

COURTESY = (
    "how (?:can|may) (?:i|we)|anything else|how are you|can i help|do for you|make sense|(?:that|this) (?:ok|okay|fine)"
)
"""Phrases of questions that need no answer."""


LONGEST = 1_000
"""Number of characters above which a word is data, not a name or a figure."""


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, words))})"


FIGURE = r"[-+]?\d+(?:[.,'\u2019]\d+)*"

SHAPES = (
    ("address", r"[a-z][a-z\d+.-]*://.+"),
    ("address", r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"),
    ("address", r"www\..+|(?:[a-z\d-]+\.)+(?:com|org|net|io|dev|app|gov|edu)(?:/.*)?"),
    ("address", r"[a-z]:\\.*|\\\\.+"),
    ("date", r"\d{4}[-/]\d\d?[-/]\d\d?(?:t[\d:.]+(?:z|[-+][\d:]+)?)?"),
    ("date", r"q[1-4]|\d\d?(?:\.\d\d?\.|/\d\d?/|-\d\d?-)(?:\d\d|\d{4})"),
    ("address", r"(?:~|\.\.?)?(?:/[\w.@+-]+){2,}/?|(?![\d/]+$)[\w.@+-]+(?:/[\w.@+-]+){2,}/?"),
    ("address", rf"[\w@+./~-]*\.{_any(ENDINGS)}|dockerfile|makefile"),
    ("amount", rf"[a-z]{{0,3}}[-+]?{_any(CURRENCIES)}{FIGURE}(?:k|m|bn)?|{FIGURE}{_any(CURRENCIES)}"),
    ("percentage", rf"{FIGURE}(?:%|pct|bps)"),
    ("time", r"\d\d?(?::\d\d){1,2}(?:[ap]m|h|z)?|\d\d?[ap]m"),
    ("id", r"\+\d{2,}|v?\d+(?:\.\d+){2,}[\w+-]*|v\d+(?:\.\d+)+"),
    ("id", r"[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}|0x[\da-f]+|(?=\d*[a-f])(?=[a-f]*\d)[\da-f]{7,128}"),
    ("id", r"#\d{2,}|\d{6,}"),
    ("count", r"24/7|50/50|\d+(?:st|nd|rd|th)"),
    ("number", r"(?:19|20)\d\ds?"),
    ("measure", rf"{FIGURE}(?:{_any(UNITS)}|k|x|s|min|h)|[-+]?(?:\d{{3,}}|\d+[.,'\u2019]\d[\d.,'\u2019]*)"),
    ("measure", r"\d+(?:[-/:]\d+)+"),
    ("number", rf"{FIGURE}|#\d"),
)
"""The kind of a word by its spelling, first match first; a bare count is worth nothing."""

FIGURES = ("measure", "number", "count")
"""Kinds that the surrounding words may change."""

PRECEDED = {**dict.fromkeys(MONTHS, "date"), **dict.fromkeys(CURRENCIES, "amount")}
FOLLOWED = {
    **dict.fromkeys(UNITS, "measure"),
    **dict.fromkeys(HOURS, "time"),
    **dict.fromkeys(("%", "percent", "per cent"), "percentage"),
    **PRECEDED,
    **{f"of {month}": "date" for month in MONTHS},
}
"""The kind of a figure by the words around it."""

SHAPE = re.compile("|".join(f"({shape})" for _, shape in SHAPES))
CODE = re.compile(r"(?=\D*\d)[\w/-]+", re.ASCII)
LABEL = re.compile(
    rf"(?:.*[._-])?(?:(?P<sure>{_any(NUMBERED)}[._-]?{_any(NUMBERS + IDS)}|{_any(IDS)})|{_any(NUMBERED + NUMBERS)})"
)
PART = re.compile(r"\d+ (?:out )?of \d+")


def kind_of(word: str, words: Sequence[str], at: int) -> str:
    """The kind of a word at this index among lower-case words; empty for an ordinary word."""
    if word.isalpha() or len(word) > LONGEST:
        return "id" if _stands_alone(word) and _labelled(words, at, True) else ""
    shape = SHAPE.fullmatch(words[at])
    if shape is None:
        return "id" if CODE.fullmatch(word) and (_is_mixed(word) or _labelled(words, at, True)) else ""
    kind = SHAPES[(shape.lastindex or 1) - 1][0]
    return _by_neighbours(kind, words, at) if kind in FIGURES else kind


def _by_neighbours(kind: str, words: Sequence[str], at: int) -> str:
    before, behind = words[at - 1] if at else "", words[at + 1 : at + 3]
    known = FOLLOWED.get(behind[0] if behind else "") or FOLLOWED.get(" ".join(behind)) or PRECEDED.get(before)
    if known or _labelled(words, at, kind == "measure" or words[at].startswith("#")):
        return known or "id"
    return "count" if kind == "number" and _counts(words, at) else kind


def _counts(words: Sequence[str], at: int) -> bool:
    """Whether a number stands alone, is a place in a list, or counts (1 of 3)."""
    if len(words) == 1 or (at and words[at - 1] in STEPS):
        return True
    around = words[max(at - 3, 0) : at + 4]
    return "of" in around and PART.search(" ".join(around)) is not None


def _labelled(words: Sequence[str], at: int, long: bool) -> bool:
    """Whether the words before mark a number as an identifier; a short number needs an unambiguous word."""
    at -= 2 if at > 1 and words[at - 1] in LINKS else 1
    label = LABEL.fullmatch(words[at]) if at >= 0 and len(words[at]) <= LONGEST else None
    if label is None:
        return False
    return long or bool(label["sure"]) or (at > 0 and words[at] in NUMBERS and words[at - 1] in NUMBERED)


def _stands_alone(word: str) -> bool:
    return 5 <= len(word) <= 10 and word.isupper()


def _is_mixed(word: str) -> bool:
    """Whether letters and digits are mixed as in a code."""
    digits, large = sum(map(str.isdigit, word)), sum(map(str.isupper, word))
    return digits > 2 or (digits > 1 and large > 0) or (digits > 0 and large > 1)


WEIGHTS = {
    "decision": 20,
    "question": 12,
    "resolve": 6,
    "id": 5,
    "amount": 5,
    "address": 5,
    "date": 4,
    "percentage": 4,
    "measure": 3,
    "time": 3,
    "meaning": 3,
    "day": 2,
    "number": 1,
}
"""Worth of each kind of thing in a sentence; a decision outweighs the things in it."""

PHRASES = (("decision", DECISION), ("resolve", RESOLVE), ("day", DAYS))
"""Kinds that phrases give to the whole sentence."""

PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(f'({words})' for _, words in PHRASES)})(?!\w)")
POLITE = re.compile(COURTESY)
MEANS = re.compile(rf"(?<![a-z])(?:{MEANING})(?![a-z])")

# Text between blanks, brackets and JSON punctuation. A comma or a colon between digits belongs to the number.
WORD = re.compile(r"[^\s\"{}\[\]()<>|;,:=`]+(?:(?:(?<=\d)[,:](?=\d)|:(?=\\))[^\s\"{}\[\]()<>|;,:=`]+|://[^\s\"'<>`]+)*")
BEFORE, BEHIND = "*'\u2018“«_", ".!?…*'\u2019”»_"
CLOSING = " )]*_\"'\u2019”»"


class Thing(Struct, frozen=True, gc=False):
    """A span of text that must be neither lost nor changed."""

    kind: str
    start: int
    end: int
    name: str = ""
    """Name by which it is recognized in other statements, if it has one."""


def things(text: str) -> list[Thing]:
    """The things in a text, in order."""
    low = _lowered(text)
    return sorted([*_phrases(low), *_words(text, low)], key=lambda thing: thing.start)


def worth(text: str, held: list[Thing]) -> int:
    """The worth of a text with these things."""
    kinds = {thing.kind for thing in held}
    if any(thing.name for thing in held) and MEANS.search(_lowered(text)):
        kinds.add("meaning")
    return sum(WEIGHTS[kind] for kind in kinds)


def asked(text: str) -> bool:
    """Whether a sentence is a question."""
    return text.rstrip(CLOSING).endswith(("?", "\uff1f"))


def courteous(text: str) -> bool:
    """Whether a question is a courtesy that needs no answer."""
    return bool(POLITE.search(_lowered(text)))


def _lowered(text: str) -> str:
    low = text.lower()
    # Some letters have no lower case of the same length, and indexes into the text must stay valid.
    return low if len(low) == len(text) else text


def _phrases(low: str) -> Iterator[Thing]:
    # "Agreed!" cannot be understood without the message that it answers.
    if low.count(" ") > 1:
        for found in PHRASE.finditer(low):
            kind = PHRASES[(found.lastindex or 1) - 1][0]
            yield Thing(kind, found.start(), found.end(), found[0] if kind == "day" else "")


def _words(text: str, low: str) -> Iterator[Thing]:
    spans = [_trimmed(found) for found in WORD.finditer(low)]
    words = [low[start:end] for start, end in spans]
    for at, (start, end) in enumerate(spans):
        if (kind := kind_of(text[start:end], words, at)) in WEIGHTS:
            # A bare figure is recognized only with the word after it.
            name = words[at : at + 2] if kind in FIGURES else words[at : at + 1]
            yield Thing(kind, start, end, " ".join(name))


def _trimmed(found: re.Match[str]) -> tuple[int, int]:
    """The start and end of a word without the punctuation around it."""
    if found[0].isalnum():
        return found.span()
    word = found[0].lstrip(BEFORE)
    start = found.end() - len(word)
    return start, start + len(word.rstrip(BEHIND).removesuffix("'s"))
