"""The words by which figures, ids and decisions are known. All in small letters, as texts are when they are read."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


MONTHS = _words(
    "jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august september"
    " october november december"
)

CURRENCIES = _words(
    "usd eur gbp chf jpy cny inr cad aud nzd sek nok dkk pln czk huf brl mxn zar sgd hkd krw $ € £ ¥ ₹ ₽ ₩ ₪"
    " dollar dollars euro euros pound pounds cent cents pence franc francs yen rupee rupees bucks"
)

HOURS = _words("am pm a.m p.m o'clock utc gmt cet cest est edt pst pdt bst")

UNITS = _words(
    "g kg mg ton tons tonnes lb lbs oz m km cm mm mile miles ft inch inches l ml litre litres liter liters"
    " b kb mb gb tb kib mib gib tib mbit gbit kbps mbps gbps hz khz mhz ghz w kw kwh volt volts ms rpm px"
    " unit units piece pieces pcs item items boxes pallet pallets parcels licence licences license licenses seat seats"
    " user users row rows record records token tokens request requests night nights copies core cores cpu cpus"
    " replica replicas node nodes share shares employees guest guests passengers room rooms invoices orders"
    " thousand million billion"
)

ENDINGS = _words(
    "py pyi ipynb md rst txt csv tsv json jsonl yaml yml toml ini cfg conf env lock log xml htm html css js jsx ts tsx"
    " mjs vue sql db sqlite parquet pdf doc docx xls xlsx ppt pptx odt ods rtf eml ics png jpg jpeg gif svg webp tif"
    " tiff heic mp3 mp4 wav mov zip gz tgz tar 7z rar bak pem crt key sh bat ps1 exe dll jar java kt go rs rb php cpp"
    " hpp cs swift lua proto tf diff patch"
)
"""By what the names of files end."""

NUMBERED = _words(
    "order ticket invoice customer client account acct case booking reservation receipt transaction tracking shipment"
    " parcel policy contract claim serial item product part user member employee patient flight passport licence"
    " license po pr issue bug job build commit request incident confirmation session trace batch lot coupon voucher"
    " extension port zip postcode room gate payment card vat model revision record document project task device asset"
    " meter phone version release"
)
"""What usually has a number by which it is known."""

NUMBERS = _words("no nos nr number numbers num code key ending ends")
"""What such a number is called; it may also just count."""

IDS = _words("id ids uuid guid sku iban pin pnr serial ref reference hash sha token")
"""What a number is called that never just counts."""

LINKS = frozenset(_words("is was are in with"))
"""What may stand between a name and its number."""

STEPS = frozenset(
    _words(
        "step option part page section chapter figure question point phase round attempt level tip answer"
        " message number top line item"
    )
)
"""Before a small number: it says where in a list we are, and nothing of the matter."""

DECISION = (
    r"decid\w+|decision|agreed|agreement|chose|chosen|opt(?:ed)? (?:for|to)|settled|settle on|sign(?:s|ed)? off"
    r"|approv\w+|reject(?:ed|s)|declined|refused|turned down|accepted|authori[sz]ed|waived|cancel+ed|went for"
    r"|(?:go|goes|going|went) (?:ahead )?with|rule[ds]? out|resolved to|voted|consensus|conclu(?:ded|sion)|the plan is"
    r"|must(?:n['\u2019]t| not| never)|may (?:not|never)|(?:nobody|no one) (?:[\w ]{1,40} )?may|not allowed"
    r"|not permitted|forbidden|prohibited|mandatory|under no circumstances|in no case|no longer|instead of|rather than"
    r"|in favou?r of|final(?:ised|ized)|verdict|veto(?:ed)?"
    r"|^(?:please |so |and |but )?(?:do not|don['\u2019]t|never|always)(?= (?!worry|mind|hesitate|know|think))"
)
"""What settles something, or forbids it."""

RESOLVE = (
    r"we(?: will|['\u2019]ll| are going to|['\u2019]re going to)(?= (?!see|look|get back|be |check|let you|try|do our))"
    r"|will not|won['\u2019]t|must(?! be| have)|(?<!that )(?<!you )(?<!it )must be|shall|confirmed|promised|guaranteed"
    r"|picked(?! up)|no later than|at the latest|insist(?:s|ed)?|prefer(?:s|red)?|only (?:if|wants?)"
    r"|does(?:n['\u2019]t| not) want|let(?:['\u2019]s| us)(?= (?!see|look|check|try|know|have))"
)
"""What says how somebody wants it, or how it is going to be."""

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
"""What gives a figure in the same sentence its meaning."""

COURTESY = (
    "how (?:can|may) (?:i|we)|anything else|how are you|can i help|do for you|make sense|(?:that|this) (?:ok|okay|fine)"
)
"""By what questions are known that nobody has to answer."""
