"""A piece of work for three specialists or one generalist: its tools, their results, and the replies."""

from __future__ import annotations

from bench.facts import Fact

ASKED = (
    "We ordered 40 mechanical seals for our pumps under PO 7719 and only part of them came, yet the invoice is for"
    " all. The line stands still from Monday week on without the rest. Get us the missing ones in time and correct the"
    " invoice, please, and tell me what you did."
)

MANNERS = (
    "You work for a maker of pump parts that sells to factories. Be brief and exact, quote numbers as the systems"
    " give them, never guess a quantity or a date, and say so when something cannot be found. Write to customers in"
    " plain sentences without jargon. Do not mention internal names, margins or other customers."
)

ORDERS = (
    "Orders are your field. Find the order first, by the customer's own number if ours is not known. Compare what was"
    " ordered, picked, shipped and invoiced line by line, and say which line differs and by how much. Look into the"
    " stock of every warehouse before you promise anything; what is reserved for others is not yours to give, and what"
    " is in quality hold is no stock. Read the framework contract whenever a delivery is short or late, because it may"
    " grant the customer a rebate or a right to be supplied first. Never change an order that was invoiced; whoever is"
    " in charge of invoices does that."
)

SHIPPING = (
    "Shipments are your field. Trace what has left the house before you send anything again: what is delayed may"
    " still come. If goods lie with customs, find out which paper is missing, and whether we or the customer have to"
    " bring it. Choose the cheapest carrier that arrives two working days before the customer needs the goods; an"
    " express courier needs a reason, and the reason goes into the booking. Seals are pressure-sensitive: never by a"
    " carrier that stacks pallets. Dangerous goods and deliveries on a Saturday need a permit that you cannot give."
    " Tell the customer the tracking number and the day, not the hour."
)

BILLING = (
    "Invoices are your field. An invoice that was sent is never altered: it is corrected by a credit note that names"
    " the lines and the reason, and if need be by a new invoice. Rebates for late delivery are granted as the"
    " framework contract says and are calculated on the net value of what came late, not on the whole order. Costs of"
    " an express courier are ours if the fault is ours. Credit notes above 5,000 need a second signature, which the"
    " system asks for by itself. Payments are never promised for a day, only the day on which they are released."
)

BOSS = (
    "You are in charge of the customer's request as a whole. You do no work of your own: give each part to the"
    " specialist whose field it is, one after the other where one needs what another finds out, and tell them what"
    " they need to know. When all is done, write one answer to the customer."
)


def find_order(customer_number: str, with_lines: bool = True) -> str:
    """Find an order by the number that the customer gave it, with what was ordered, picked, shipped and invoiced."""
    return """\
{"order": "SO-448120", "customer_number": "7719", "customer": "Paper mill Aller", "placed": "2026-04-02",
 "terms": "FW-2023-118", "ship_to": "gate 3, goods in, Mon-Thu 07:00-15:00", "incoterm": "DAP",
 "lines": [
  {"line": 10, "article": "MS-55/2C", "text": "mechanical seal 55 mm, cartridge", "ordered": 40, "picked": 40,
   "shipped": 22, "invoiced": 40, "unit_price": 312.00, "remark": "split by warehouse, second parcel 18 pcs"},
  {"line": 20, "article": "OR-55-V", "text": "O-ring set Viton", "ordered": 40, "picked": 40, "shipped": 40,
   "invoiced": 40, "unit_price": 9.40},
  {"line": 30, "article": "DOC-3.1", "text": "certificate 3.1", "ordered": 1, "picked": 1, "shipped": 1,
   "invoiced": 1, "unit_price": 25.00}],
 "deliveries": ["DN-90311 (22 pcs, 40 sets, arrived 2026-04-21)", "DN-90312 (18 pcs, left 2026-04-20)"],
 "needed_by": "2026-05-11", "created_by": "portal", "blocked": false}"""


def check_stock(article: str, quantity: int, warehouses: list[str] | None = None) -> str:
    """What is in stock of an article in each warehouse: free, reserved, in quality hold, and what is due to come in."""
    return """\
article MS-55/2C, wanted 18
warehouse      free   reserved   quality hold   due in
Bremen            4         12              0   30 on 2026-05-19
Rotterdam        21          6              0   -
Linz              0          9             24   hold lifted not before 2026-05-15
Barcelona         2          0              0   -
Remarks: Rotterdam ships daily until 14:00. Four of the free pieces in Bremen come from a returned parcel and have been
tested again. A transfer between warehouses takes three working days. Substitute MS-55/2D fits mechanically but has
another spring, and has to be released by the customer's own technicians before it is used."""


def read_contract(contract: str, topics: list[str]) -> str:
    """What a framework contract says on some topics, clause by clause, in its own words."""
    return """\
FW-2023-118, clause 4.3 Supply in case of shortage: the customer is supplied before spot orders, in proportion to the
quantities of the last twelve months.
Clause 7.1 Late delivery: a delivery is late if it arrives more than five working days after the date confirmed. The
date confirmed for SO-448120 was 2026-04-24.
Clause 7.2 Rebate: for every commenced week of delay 2 percent of the net value of the goods that are late, at most
8 percent, without proof of damage. It is credited without being asked for.
Clause 7.4 Express: where the supplier is at fault the supplier bears the cost of faster carriage, up to 600 a case.
Clause 9.1 Invoices: only what was delivered is invoiced. Invoices are due 30 days after the last partial delivery.
Clause 12 Substitutes: only with written release by the technical department of the customer."""


def trace_shipment(delivery_note: str) -> str:
    """Where a shipment is: every scan with its place and time, the carrier's remarks, and when it is expected."""
    return """\
DN-90312, carrier Nordfracht, 1 parcel, 14.2 kg, 18 pcs
2026-04-20 15:10  Barcelona  picked up
2026-04-21 06:44  Lyon       hub, sorted
2026-04-22 03:20  Basel      hub, in transit (routing error: left the customs union)
2026-04-22 09:05  Basel      stopped by customs, papers requested from the shipper
2026-04-29 09:00  Basel      second request, no answer
2026-05-04 08:30  Basel      storage fee begins, 12.00 a day
expected: unknown. The carrier's remark: mail for papers went to barcelona-old@, which does not exist any more.
Contact for returns: desk 4 in Basel, reference NF-7730-CH."""


def customs_status(reference: str) -> str:
    """What customs want for a shipment that they hold, from whom, and how long it takes once they have it."""
    return """\
Reference NF-7730-CH. State: held, temporary storage, day 13 of 90.
Missing: commercial invoice for transit, declaration T2, authority for the agent.
To be brought by: the shipper (we), not by the consignee. Form of authority: one page, signed, by mail is enough.
Time once complete: 3 to 6 working days, no guarantee. Inspection ordered: no. Duties: none if declared as transit.
Return to sender: possible at any time, 2 to 3 days to Barcelona, 86.00 and the storage fee.
Earliest arrival at the consignee if papers come today: 2026-05-14."""


def book_carrier(origin: str, quantity: int, arrive_by: str, reason: str) -> str:
    """Book the carriage of goods from a warehouse to a customer; an express needs a reason."""
    return """\
offers for 18 pcs, 14.2 kg, Rotterdam to gate 3
A  road freight, stacked pallets        2026-05-08   61.00   not allowed for this article
B  parcel, not stacked                  2026-05-11   48.00   too late for two days before need
C  direct van, not stacked              2026-05-07   395.00  within clause 7.4
booked: C, booking VX-2208-41, pick-up 2026-05-06 13:00, delivery 2026-05-07 between 07:00 and 15:00
reservation of 18 pcs MS-55/2C in Rotterdam taken over from stock, delivery note DN-90977
tracking for the customer: VX220841NL
cost centre: complaints, reason recorded"""


def find_invoice(order: str) -> str:
    """Find the invoices of an order, with their lines, what was paid and when they fall due."""
    return """\
{"invoice": "INV-260415-07", "order": "SO-448120", "date": "2026-04-22", "due": "2026-05-22", "currency": "EUR",
 "lines": [{"line": 10, "quantity": 40, "unit": 312.00, "net": 12480.00},
           {"line": 20, "quantity": 40, "unit": 9.40, "net": 376.00},
           {"line": 30, "quantity": 1, "unit": 25.00, "net": 25.00}],
 "net": 12881.00, "vat": 2447.39, "gross": 15328.39, "paid": 0.00,
 "sent_to": "accounts payable, by portal", "dunning": "stopped while a complaint is open",
 "history": ["2026-04-22 created from picking list", "2026-04-23 sent", "2026-05-05 disputed by customer"]}"""


def issue_credit(invoice: str, line: int, quantity: int, rebate_percent: float, reason: str) -> str:
    """Issue a credit note on an invoice: so many pieces of a line that were not delivered, and a rebate on them."""
    return """\
credit note CN-260506-02 on INV-260415-07
line 10: 18 pcs not delivered, 18 x 312.00                     -5,616.00 net
second signature requested and given (above 5,000)
new invoice on delivery of DN-90977: 18 x 312.00                5,616.00
rebate clause 7.2, 2 weeks commenced, 4 percent of 5,616.00      -224.64
INV-260415-07 now: net 7,265.00, due 30 days after the last partial delivery
released for sending: 2026-05-06
The customer's portal shows both documents within an hour."""


SHORT = Fact("orders", "How many seals are missing?", ("18",))
FREE = Fact("orders", "Where are free seals in stock?", ("Rotterdam", "21"))
NOTE = Fact("orders", "Which delivery note has the missing parcel?", ("DN-90312",))
FASTER = Fact("orders", "Who pays for faster carriage, and up to what?", ("600",))
ORDER = Fact("orders", "What is our own number of the order?", ("SO-448120",))
REBATE = Fact("orders", "What rebate does clause 7.2 grant for each week?", ("2 percent",))
ARRIVES = Fact("shipping", "When do the goods arrive by van?", ("2026-05-07",))

NEEDED = {"orders": (), "shipping": (SHORT, FREE, NOTE, FASTER), "billing": (SHORT, ORDER, REBATE, ARRIVES)}
"""The facts that each agent needs from the others."""

ANSWER = (
    "The second parcel with 18 seals went astray and is held by customs in Basel, because papers were asked for at an"
    " address of ours that no longer exists. That is our fault. We are sending 18 new ones from Rotterdam by direct"
    " van: they arrive on Thursday 7 May, tracking number VX220841NL. Invoice INV-260415-07 is corrected by credit"
    " note CN-260506-02 over the 18 pieces; they are invoiced again when they are with you, less 224.64 for the delay"
    " as your contract says. Nothing is due before 30 days after that delivery."
)
FOUND = (
    "Order SO-448120 (your customer's PO 7719), line 10: 40 seals MS-55/2C ordered and invoiced, 22 shipped, 18"
    " missing. They left as a parcel of their own, delivery note DN-90312, on 20 April. Free stock: Rotterdam 21,"
    " Bremen 4. Needed by 11 May. The framework contract gives 2 percent a week on what is late, at most 8, and lets"
    " us pay up to 600 for faster carriage."
)
SENT = (
    "The lost parcel is held in Basel (NF-7730-CH) and would not arrive before 14 May. I booked a direct van from"
    " Rotterdam, VX-2208-41 for 395.00, for 18 pieces; it arrives on 2026-05-07. Delivery note DN-90977, tracking"
    " VX220841NL."
)
CORRECTED = (
    "Credit note CN-260506-02 on INV-260415-07 over 18 pieces, 5,616.00 net; they are invoiced anew on delivery, less"
    " a rebate of 224.64. Nothing is due before 30 days after the last delivery."
)
SUMMARIES = (
    "A paper mill has had 22 of 40 seals under PO 7719 and was invoiced for all. The order is SO-448120; 18 are"
    " missing, and Rotterdam has 21 free. The contract grants 2 percent for each week of delay.",
    "The missing parcel is stuck with customs in Basel. A direct van from Rotterdam was booked as VX-2208-41 and"
    " arrives on 2026-05-07.",
    "The invoice was corrected.",
)
NEEDS = ("which goods are missing", "numbers of orders, deliveries and invoices", "what the contract grants")
"""The needs of the next agent, for the summariser."""
