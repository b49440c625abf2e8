"""The facts of each talk that its last receiver needs, and how a mediocre summariser retells them.

A text contains a fact if all its words are in one line. The summaries contain four of the ten facts; the others must
come from what the library keeps by itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Fact(NamedTuple):
    """A fact that was said once, a query for it, and the words that a text must contain to tell it."""

    origin: str
    question: str
    words: tuple[str, ...]

    def stands_in(self, text: str) -> bool:
        """True if the text contains the fact."""
        marks = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in self.words]
        return any(all(mark.search(line) for mark in marks) for line in text.splitlines())


class Case(NamedTuple):
    """A talk, the receiver at its end, and the facts that it needs."""

    name: str
    receiver: str
    needs: tuple[str, ...]
    facts: tuple[Fact, ...]
    summaries: tuple[str, ...]


KITCHEN = Case(
    "kitchen",
    "fitting",
    ("the budget", "what the fitters have to keep in mind in this house", "what is ordered or held", "what is open"),
    (
        Fact("user", "How much money is there for the kitchen in all?", ("16,800",)),
        Fact("user", "Who in the family has special needs when cooking?", ("father", "wheelchair")),
        Fact("user", "Who has to be asked before drilling into the yard wall?", ("Hanneke",)),
        Fact("user", "Which drawing is the right one?", ("kitchen_7b_low_sill.pdf",)),
        Fact("user", "Does the gas boiler stay where it is?", ("heating man",)),
        Fact("agent", "Which kind of hob was chosen, and why?", ("downdraft", "because")),
        Fact("tool", "How much weight can the lift carry?", ("450 kg",)),
        Fact("tool", "Under which reservation is the worktop held?", ("R-20417-K",)),
        Fact("tool", "Until when is the slot of team C in May kept?", ("team C", "Friday noon")),
        Fact("file", "Is the yard wall straight, how far is it out of plumb?", ("23 mm",)),
    ),
    (
        "A family has bought a flat on the second floor of an old, listed house and wants its kitchen done from"
        " scratch. The father, who uses a wheelchair, is to cook there, so one stretch of worktop is lower than the"
        " rest, under the window. They settled on a downdraft hob with recirculation because a duct through the wall"
        " would need a permit; the oven opens to the side, and the worktop is compact board in place of granite. The"
        " bank has given 16,800 for everything, and the quote stays below it. They work from kitchen_7b_low_sill.pdf,"
        " not from the other drawing. The customer hopes for a date in May and would like to fix the days now.",
    ),
)

MEETING = Case(
    "meeting",
    "onsite",
    ("rules of the house", "rooms and deadlines", "what guests must or must not get", "who does what", "what is open"),
    (
        Fact("user", "What may the money of the foundation be spent on, and how much is it?", ("6,300", "meals")),
        Fact("user", "Do any guests have allergies?", ("nuts",)),
        Fact("user", "Who looks after projector and sound?", ("Tomasz",)),
        Fact("user", "Which list of speakers is valid?", ("speakers_october_c.xlsx",)),
        Fact("user", "Will the talks be streamed?", ("stream", "board meets in September")),
        Fact("agent", "Why the customs house and not the university?", ("university", "six")),
        Fact("tool", "How many people may be in the hall?", ("130",)),
        Fact("tool", "What code do guests give at the hotel?", ("FH-ARCH-2291",)),
        Fact("tool", "Until when can rooms at the Fährhaus be given back?", ("28 August",)),
        Fact("tool", "When does the last tram leave?", ("22:34",)),
    ),
    (
        "The yearly meeting of archivists of small museums takes place on Friday 9 and Saturday 10 October in the"
        " old customs house, which was preferred to the university because that closes at six. A foundation pays"
        " 6,300 for meals and coffee. Lunch is soup and sandwiches, dinner is in the hall at long tables with lamps"
        " from the theatre, and a choir sings four songs. There are talks, a keynote by a crime writer and a workshop"
        " on wet paper, held twice. Two guests from Oslo must not come near nuts. Rooms are held at Hotel Fährhaus,"
        " where guests quote FH-ARCH-2291, and beds at a hostel. About a hundred people have registered, badges are"
        " of cardboard, and trainees work at the door.",
    ),
)

RECALL = Case(
    "recall",
    "closing",
    ("what is affected", "whom one has to ask", "references and deadlines", "what must not be said", "what is open"),
    (
        Fact("user", "Which batch did the mother complain about?", ("L2231-P",)),
        Fact("user", "What must not be said outside the house?", ("supplier", "not name")),
        Fact("agent", "Why is more recalled than the one batch?", ("3b", "since the night")),
        Fact("agent", "Who can lift the bar on the lots?", ("Miriam",)),
        Fact("agent", "What is the reference of the food safety office?", ("44-1187/R",)),
        Fact("agent", "Which version of the notice counts?", ("notice_public_v3.docx",)),
        Fact("agent", "Did the pear and banana run over the same filler?", ("pear and banana", "3b as well")),
        Fact("tool", "Where are the X-ray pictures?", ("S-40917",)),
        Fact("tool", "Which day nurseries got some of it?", ("Sunflower", "26 trays")),
        Fact("tool", "By when must the insurer have notice of the loss?", ("31 March",)),
    ),
    (
        "A mother found a splinter of glass in a jar of pear purée, batch L2231-P; a complaint of 14 March looks the"
        " same. Her jar is being taken to the laboratory.",
        "The laboratory put kept jars through the X-ray and found glass in those of 12, 17 and 19 March. The jar of the"
        " customer has it too, with sharp edges.",
        "All goods in both warehouses were barred, and a lorry was stopped at the last minute.",
        "The deliveries were traced to two chains, drugstores, wholesalers, a clinic and day nurseries. The"
        " Sunflower nurseries have 26 trays, set aside and to be fetched.",
        "Both chains and the drugstores are clearing their shelves. Some hundreds of jars are with families.",
        "The case was reported to the district office under 44-1187/R. An inspector comes on Wednesday at nine.",
        "A notice was written, checked by legal and sent out in the afternoon; the radio asked for an interview.",
        "Customers get their money back by a form on the website, without a receipt, and the hotline has more staff.",
        "The recall policy covers most of it above an excess. The notice of loss has to be given by 31 March and"
        " waits for a signature.",
        "A gripper at the filler was set too tight after a repair, and two warnings went no further.",
    ),
)

CASES = (KITCHEN, MEETING, RECALL)
