"""Conversations with ten facts planted in them, among chatter that holds none or only numbers in passing."""

import random
from collections.abc import Sequence

from changeover.messages import Assistant, File, Message, Note, ToolResult, User

SMALL_TALK = [
    "Hello, thank you for getting in touch with us today.",
    "I am so sorry to hear that, it must have been annoying.",
    "Let me have a look, one moment please.",
    "No problem, take your time.",
    "It really is a lovely product otherwise, my sister has the same one.",
    "I see what you mean.",
    "Thanks for your patience, I am still looking into it.",
    "The weather has been dreadful here, so everything takes longer.",
    "Could you describe what happened in your own words?",
    "Well, it arrived, I opened it, and that was that.",
    "Oh dear, that is not what we want to hear.",
    "I would like to get this sorted out before my holiday.",
    "Of course, I completely understand.",
    "Sure, go on.",
    "My neighbour took it in for me because I was at work.",
    "You have been very helpful so far.",
]

NUMBERS_IN_PASSING = [
    "I waited {} minutes on the line before anybody picked up.",
    "Honestly, I must have read that page {} times.",
    "We are {} people in this household and nobody has seen it.",
    "Step {} worked, the next one did not.",
    "{}. Open the app and tap on your picture",
    "I have been a customer for {} years now.",
    "My son is {} and even he could not make sense of it.",
    "That took me {} hours yesterday, just so you know.",
    "See page {} of the leaflet, it is all explained there.",
    "I counted {} spelling mistakes in your mail, by the way.",
    "It rained for {} days, so I stayed in.",
    "On a scale from 1 to 10 I would give it a {}.",
    "The shop is {} minutes from here if the bus comes.",
    "This is the {}th time that I explain this.",
]

SUPPORT: list[Message] = [
    User("my order is ORD-1042 and the box was empty when it came"),
    ToolResult("c1", "lookup_order", "desk", '{"order": {"total": 49.90, "currency": "EUR", "carrier": "Nordpost"}}'),
    Assistant("desk", "We've agreed to send a replacement rather than give the money back."),
    Note("The claim against the carrier has to be filed by 14 March.", author="logistics"),
    User("Please write to ana.lee@example.org, I do not read the other mailbox any more."),
    Assistant("desk", "I put the photographs under /srv/claims/nordpost/empty-box.zip for whoever takes over."),
    Assistant("billing", "Restocking would cost her 12.5% of the price."),
    ToolResult("c2", "stock", "desk", "340 units left in Rotterdam"),
    Assistant("desk", "She must not be phoned before noon, she works nights."),
    User("And to which of my two addresses are you going to send it?"),
]

ENGINEERING: list[Message] = [
    Assistant("lead", "Let's go with Postgres; two writers were too much for the old set-up."),
    User("the importer has been broken since commit 9f2c1ab"),
    Assistant("ops", "It dies every night at 02:15 UTC, right after the backup."),
    Note("Runbook: https://wiki.example.org/runbooks/importer?view=all#rollback", author="ops"),
    Assistant("ops", "The settings that matter are in deploy/prod/values.yaml, nowhere else."),
    ToolResult("c1", "traces", "ops", 'found {"trace_id": "5f0c7c1e-8d5b-4c57-9d0e-0b9d8a3a8f11", "spans": [}'),
    User("Under no circumstances may the audit table be dropped!"),
    Assistant("ops", "Each worker is limited to 512 MB of memory."),
    User("Ticket #8812 is the one that all of this belongs to."),
    Assistant("lead", "Who signs off the migration on your side?"),
]

TRAVEL: list[Message] = [
    User("Our booking reference is X7KQ2P, in case you need it."),
    Assistant("agent", "The two of you would pay £1,280 all in."),
    User("After some back and forth we chose the early train from Lyon."),
    ToolResult("c1", "passports", "agent", '[{"holder": "A. Moreau", "passport_number": "53AB98", "valid": true}]'),
    Assistant("agent", "Changing the name on it costs 45 CHF each."),
    User("You can reach me at +33 6 12 34 56 78 while I am away."),
    Assistant("agent", "Check-in closes on 2031-07-09, so it had better be done in time."),
    User("here is the scan", files=(File(b"...", "application/pdf", "moreau-visa.pdf"),)),
    Assistant("agent", "Never book them on the night ferry, he gets seasick."),
    User("Is breakfast included at the second hotel?"),
]

TELL_TALE = {
    "support": [
        "ORD-1042", "49.90", "agreed to send a replacement", "by 14 March", "ana.lee@example.org",
        "/srv/claims/nordpost/empty-box.zip", "12.5%", "340 units", "must not be phoned before noon", "which of my two",
    ],
    "engineering": [
        "go with Postgres", "9f2c1ab", "02:15 UTC", "https://wiki.example.org/runbooks/importer?view=all#rollback",
        "deploy/prod/values.yaml", "5f0c7c1e-8d5b-4c57-9d0e-0b9d8a3a8f11", "audit table", "512 MB", "#8812",
        "signs off",
    ],
    "travel": [
        "X7KQ2P", "£1,280", "chose the early train", "53AB98", "45 CHF", "+33 6 12 34 56 78", "2031-07-09",
        "moreau-visa.pdf", "night ferry", "breakfast included",
    ],
}  # fmt: skip
FACTS = {"support": SUPPORT, "engineering": ENGINEERING, "travel": TRAVEL}


def among(facts: Sequence[Message], chatter: Sequence[str], seed: int) -> list[Message]:
    """The facts in their order among chatter of two people, the last of them at the very end."""
    rng = random.Random(seed)
    places = [*sorted(rng.sample(range(len(chatter)), len(facts) - 1)), len(chatter)]
    talk: list[Message] = []
    for place, text in enumerate([*chatter, ""]):
        talk += [fact for fact, at in zip(facts, places, strict=True) if at == place]
        if text:
            talk.append(User(text) if rng.random() < 0.5 else Assistant("desk", text))
    return talk


def small_talk(length: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.sample(SMALL_TALK, rng.randint(1, 3))) for _ in range(length)]


def noise(length: int, seed: int) -> list[str]:
    """Chatter in which nearly every message has a number that means nothing, hardly two of them the same."""
    rng = random.Random(seed)
    lines = [rng.choice(NUMBERS_IN_PASSING).format(rng.randint(2, 59)) for _ in range(length)]
    return [f"{rng.choice(SMALL_TALK)} {line}" if rng.random() < 0.5 else line for line in lines]
