"""Words that people use for about the same thing, so that "you took my money" finds whoever does payments."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

from changeover.routing.words import stem

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
"""Shorter or less alike, and it is another word: Spain is no spin, an export no expert."""


@lru_cache(maxsize=1)
def _families() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, members in FAMILIES.items():
        for member in members.split():
            found[stem(member)] = (*found.get(stem(member), ()), f"~{name}")
    return found


def families(word: str) -> tuple[str, ...]:
    """The families of a stem; a tilde marks them, so that none is taken for a word."""
    return _families().get(word, ())


def spelled(word: str, known: Collection[str]) -> str:
    """The known stem that was probably meant, or the word as it is."""
    if len(word) < SHORT or word in known or families(word) or not word.isalpha():
        return word
    near = [each for each in (*known, *_families()) if len(each) >= SHORT and each[0] == word[0]]
    return next(iter(get_close_matches(word, near, 1, ALIKE)), word)
