"""Words of a text: lower case, stems, stop words, and synonyms."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

WORD = re.compile(r"[^\W_]+")

STOP_WORDS = """
    a about after again all also am an and any anybody anyone anything are as at be because been before being both but
    by can cannot could did do does doing don done down during each else etc every everything few for from further
    had has have having he hello help hence her here hers hey hi him his how i if in into is it its itself just kindly
    know let like ll m many may me mean might mine more most much must my myself need never no nor not nothing now of
    off on once one only or other our out over own per please question re really regards s same shall she should so
    some somebody someone something soon still such sure t tell than thank that the their them then there these they
    thing this those through to too under until up upon us use user using ve very via want was way we well were what
    when where whether which while who whom whose why will wish with within without would yes yet you your yours
    come find found get give go happen look make put say see send show take think took try
    bye cheers fine good goodbye great nice ok okay perfect welcome
    customer customers agent agents ask asks questions needs wants thanks
"""
STOP = frozenset(STOP_WORDS.split())
"""Stop words, verbs that go with anything, and words that every support desk uses."""

VOWEL = re.compile(r"[aeiouy]")
ENDINGS = (
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("shes", "sh"),
    ("ches", "ch"),
    ("xes", "x"),
    ("ings", ""),
    ("ing", ""),
    ("ed", ""),
    ("s", ""),
)
"""Endings and their replacements; the first that fits is used. Rougher than a real stemmer, but both sides of a
comparison are treated alike."""
NOUNS = (("ation", 4), ("ison", 4), ("ment", 3), ("ion", 4))
"""Endings that make a noun of a verb, and how many letters must remain."""


def words(text: str) -> list[str]:
    """The words of a text without stop words, as stems, in their order."""
    return [stem(word) for word in content_words(text)]


def content_words(text: str) -> list[str]:
    """The words of a text without stop words, in lower case."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP]


def stem(word: str) -> str:
    """A word without the endings of plurals, -ing, -ed and verbal nouns, and without a final e."""
    for ending, instead in ENDINGS:
        rest = word.removesuffix(ending)
        if rest != word and _may_stand_alone(rest, ending):
            word = (_single(rest) if ending in ("ings", "ing", "ed") else rest) + instead
            break
    for ending, least in NOUNS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = _single(word.removesuffix(ending))
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _may_stand_alone(rest: str, ending: str) -> bool:
    if ending == "s":
        return len(rest) > 2 and not rest.endswith(("s", "u", "si"))  # address, status and analysis are no plurals
    if ending in ("ies", "ied"):
        return len(rest) > 1
    return len(rest) > 2 and bool(VOWEL.search(rest))  # the -ing of string and the -ed of need are no endings


def _single(rest: str) -> str:
    """`runn` becomes `run` and `cancell` `cancel`; `bill`, `install` and `process` stay."""
    if len(rest) < 4 or rest[-1] != rest[-2]:
        return rest
    stays = rest[-1] in "sz" or (rest[-1] == "l" and not (len(rest) > 5 and rest[-3] in "eo"))
    return rest if stays else rest[:-1]


FAMILIES = {
    "money": "pay payment paid bill billing invoice charge refund money price pricing cost fee card credit debit bank"
    " receipt statement subscription tax vat euro dollar eur usd discount coupon voucher purchase overcharge payout"
    " balance instalment reimburse reimbursement transaction",
    "trouble": "error bug crash broken broke break fail failure failed freeze froze frozen hang slow stuck outage fault"
    " defect glitch blank missing spin malfunction troubleshoot debug fix repair exception corrupt lag drain",
    "access": "login log logged sign signin password lock locked unlock access authentication username reset code 2fa"
    " credential otp account",
    "device": "app application software website site page browser phone laptop computer device screen install button"
    " load upload download file video audio sound photo picture camera battery api web link"
    " update version desktop mobile iphone android windows printer setting settings technical",
    "network": "internet wifi wlan connection connect network server vpn router timeout offline sync online",
    "study": "research investigate study compare comparison analyse analyze analysis analyst search report source"
    " market trend competitor competition statistic news fact paper article survey summarise summarize summary overview"
    " benchmark background evidence history alternative population invent policy science",
    "likeness": "compare versus vs alternative difference differ better best review",
    "post": "ship shipping shipment deliver delivery parcel package track tracking courier arrive",
    "return": "return exchange swap replace replacement warranty guarantee",
    "date": "book booking reserve reservation appointment schedule reschedule calendar meeting slot",
    "travel": "flight fly hotel train travel trip airport visa itinerary",
    "staff": "hire job vacation leave holiday salary payroll hr employee onboarding recruit",
    "law": "legal law contract lawyer gdpr privacy compliance clause liability",
    "text": "write draft edit rewrite proofread essay letter email translate translation",
    "code": "code program programming function python javascript compile deploy refactor script",
    "number": "math maths mathematics calculate calculation compute multiply divide percent equation plus minus",
    "end": "cancel cancellation terminate unsubscribe quit stop close",
    "sale": "buy purchase quote sales sell upgrade plan offer pricing",
    "weather": "weather rain sunny temperature forecast snow storm",
    "danger": "security hack hacked phishing fraud breach stolen virus malware suspicious",
    "health": "doctor health pain medicine symptom patient clinic",
    "food": "food recipe cook meal restaurant dinner lunch menu",
}

SHORT = 5
ALIKE = 0.85
"""The least length and similarity of a word for spelling correction: Spain is not spin, export not expert."""


@lru_cache(maxsize=1)
def _families() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, members in FAMILIES.items():
        for member in members.split():
            found[stem(member)] = (*found.get(stem(member), ()), f"~{name}")
    return found


def families(word: str) -> tuple[str, ...]:
    """The families of synonyms of a stem, marked by a tilde to distinguish them from words."""
    return _families().get(word, ())


def corrected(word: str, known: Collection[str]) -> str:
    """The known stem that a misspelled word probably means, or the word itself."""
    if len(word) < SHORT or word in known or families(word) or not word.isalpha():
        return word
    near = [each for each in (*known, *_families()) if len(each) >= SHORT and each[0] == word[0]]
    return next(iter(get_close_matches(word, near, 1, ALIKE)), word)
