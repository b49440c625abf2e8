"""Long conversations in four languages, with twelve facts planted by a seeded script and none in the last messages.

A fact is a line `sentence | question`, in which `@` stands for its value. Where a third part follows, the value is
corrected later in these words, and the first value is outdated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

STREETS = [
    "Harbour Street",
    "Mill Lane",
    "Lindenweg",
    "Ahornallee",
    "Quai Voltaire",
    "Rue Monge",
    "梅田",
    "銀座",
    "Elm Court",
    "Birkenstieg",
]
PEOPLE = ["Okafor", "Brandt", "Lindqvist", "Moreau", "Tanaka", "Aydin", "Rossi", "Novak", "Silva", "Haddad"]


class Planted(NamedTuple):
    """A fact, a query for it, the words that tell it, and a value that is outdated."""

    question: str
    value: str
    outdated: str = ""


class Language(NamedTuple):
    """Sentences of a language: small talk, and facts."""

    chatter: Sequence[str]
    facts: Sequence[str]


def _lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


ENGLISH = Language(
    _lines("""
Thank you for waiting, I am still looking at the # you mentioned.
No hurry, I have time until my # is over.
My sister had the same trouble with her #, it took her two weeks.
Could you tell me a little more about the #?
I see, that is not how the # should behave.
It rained all weekend, so we stayed in and looked at the # again.
Oh, I did not know that one can do this with a #.
Let me ask a colleague who knows more about the #.
That would be lovely, thank you.
The last time somebody looked at the # was before the holidays.
Honestly, the # itself is fine, it is everything around it.
I read somewhere that a # lasts longer if one leaves it alone.
We can come back to the # later if you like.
Yes, exactly, that is what I meant.
I am writing this from the train, so please excuse short answers about the #.
We try to answer all questions about the # within a day.
"""),
    _lines("""
My customer number is K@. | What is the customer number?
The parcel weighs @ grams according to the label. | How heavy is the parcel?
Please deliver it to @. | Where should it be delivered to? | I moved, please deliver it to @ now.
You can reach me under 0@ in the evening. | Under which telephone number can the user be reached?
We agreed on a discount of @ euros. | Which discount was agreed? | The discount we agreed on is @ euros after all.
Only P@ may sign for it, nobody else. | Who may sign for it?
The warranty ends in @ days. | When does the warranty end?
The contract number is C@. | What is the contract number?
The spare key is with P@ next door. | Who has the spare key?
The alarm code of the back door is @. | What is the code of the alarm? | They changed the alarm code, it is @ now.
I am allergic to latex since @, no gloves please. | Which allergies does the user have?
The invoice goes to cost centre Z@. | Which cost centre gets the invoice?
"""),
)
GERMAN = Language(
    _lines("""
Danke für Ihre Geduld, ich sehe mir # gerade noch einmal an.
Kein Problem, ich habe heute Zeit.
Meine Schwester hatte mit # denselben Ärger, das hat zwei Wochen gedauert.
Können Sie mir noch etwas mehr über # erzählen?
Ich verstehe, so sollte das mit # nicht sein.
Es hat das ganze Wochenende geregnet, da haben wir uns # noch einmal angesehen.
Das wusste ich nicht, dass man das mit # machen kann.
Ich frage eine Kollegin, die sich mit # besser auskennt.
Das wäre schön, vielen Dank.
Zuletzt hat vor den Ferien jemand nach # gesehen.
Ehrlich gesagt ist # in Ordnung, es ist alles drumherum.
Ich habe gelesen, dass # länger hält, wenn man nichts daran macht.
Wir können später auf # zurückkommen, wenn Sie mögen.
Ja, genau, das habe ich gemeint.
Ich schreibe aus dem Zug, entschuldigen Sie kurze Antworten zu #.
Fragen zu # beantworten wir meist am selben Tag.
"""),
    _lines("""
Meine Kundennummer lautet K@. | Wie lautet die Kundennummer?
Das Paket wiegt laut Etikett @ Gramm. | Wie schwer ist das Paket?
Die Lieferadresse ist @. | Wie lautet die Adresse der Lieferung? | Nach dem Umzug ist die Lieferadresse @.
Abends erreichen Sie mich unter 0@. | Unter welcher Telefonnummer ist der Kunde abends zu erreichen?
Wir haben einen Rabatt von @ Euro vereinbart. | Welcher Rabatt gilt? | Der vereinbarte Rabatt beträgt nun doch @ Euro.
Unterschreiben darf nur P@, sonst niemand. | Wer darf unterschreiben?
Die Garantie läuft in @ Tagen ab. | Wann läuft die Garantie ab?
Die Vertragsnummer ist C@. | Wie ist die Nummer des Vertrags?
Der Ersatzschlüssel liegt bei P@ nebenan. | Bei wem liegt der Ersatzschlüssel?
Der Code der Alarmanlage ist @. | Welchen Code hat der Alarm? | Der Code der Alarmanlage ist jetzt @.
Seit @ bin ich gegen Latex allergisch, bitte keine Handschuhe. | Welche Allergie hat der Kunde?
Die Rechnung geht an Kostenstelle Z@. | An welche Kostenstelle geht die Rechnung?
"""),
)
FRENCH = Language(
    _lines("""
Merci de votre patience, je regarde encore une fois # avec attention.
Pas de souci, j'ai tout mon temps aujourd'hui.
Ma sœur a eu le même ennui avec #, cela a pris deux semaines.
Pouvez-vous m'en dire un peu plus sur # ?
Je comprends, ce n'est pas normal pour #.
Il a plu tout le week-end, alors nous avons encore regardé #.
Je ne savais pas que l'on pouvait faire cela avec #.
Je demande à une collègue qui connaît mieux #.
Ce serait parfait, merci beaucoup.
La dernière visite pour # date d'avant les vacances.
Franchement, # va bien, c'est tout le reste.
J'ai lu que # dure plus longtemps si on n'y touche pas.
Nous pourrons reparler de # plus tard si vous voulez.
Oui, voilà, c'est ce que je voulais dire.
J'écris depuis le train, pardonnez mes réponses courtes sur #.
Nous répondons aux questions sur # dans la journée.
"""),
    _lines("""
Mon numéro de client est K@. | Quel est le numéro de client ?
Le colis pèse @ grammes selon l'étiquette. | Combien pèse le colis ?
L'adresse de livraison est @. | Quelle est l'adresse de livraison ? | Je déménage, l'adresse de livraison devient @.
Le soir, on peut me joindre au 0@. | À quel numéro peut-on joindre le client le soir ?
Nous avons convenu d'une remise de @ euros. | Quelle remise a été convenue ? | La remise convenue est de @ euros.
Seul P@ peut signer, personne d'autre. | Qui peut signer ?
La garantie expire dans @ jours. | Quand expire la garantie ?
Le numéro de contrat est C@. | Quel est le numéro du contrat ?
Le double des clés est chez P@ à côté. | Chez qui est le double des clés ?
Le code de l'alarme est @. | Quel est le code de l'alarme ? | Le code de l'alarme a changé, c'est @ maintenant.
Je suis allergique au latex depuis @, pas de gants. | Quelle allergie a le client ?
La facture va au centre de coûts Z@. | À quel centre de coûts va la facture ?
"""),
)
JAPANESE = Language(
    _lines("""
お待たせしております。#についてもう一度確認しています。
大丈夫です、今日は時間があります。
妹も#で同じことがあって、二週間かかりました。
#についてもう少し詳しく教えていただけますか。
なるほど、#がそうなるのはおかしいですね。
週末はずっと雨だったので、家で#を見直していました。
#でそんなことができるとは知りませんでした。
#に詳しい同僚に聞いてみます。
それは助かります、ありがとうございます。
前回#を見てもらったのは休みの前でした。
正直に言うと、#自体は問題ありません。
#は触らないほうが長持ちすると読みました。
よろしければ#の話はまた後でしましょう。
はい、まさにそういう意味です。
電車の中で書いているので、#の返事が短くてすみません。
#のご質問には当日中にお答えしています。
"""),
    _lines("""
お客様番号はK@です。 | お客様番号は何ですか
ラベルによると荷物の重さは@グラムです。 | 荷物の重さはどのくらいですか
配送先の住所は@です。 | 配送先の住所はどこですか | 引っ越したので、配送先の住所は@になりました。
夜は0@に電話してください。 | 夜の電話番号は何番ですか
割引は@円で合意しました。 | 割引はいくらで合意しましたか | 合意した割引はやはり@円です。
署名できるのはP@さんだけです。 | 署名できるのは誰ですか
保証期間はあと@日で終わります。 | 保証期間はいつ終わりますか
契約番号はC@です。 | 契約番号は何ですか
合鍵は隣のP@さんが持っています。 | 合鍵は誰が持っていますか
警報の暗証番号は@です。 | 警報の暗証番号は何ですか | 警報の暗証番号が変わって、今は@です。
@年からラテックスアレルギーなので手袋は使わないでください。 | どんなアレルギーがありますか
請求書は原価センターZ@に送ってください。 | 請求書はどの原価センターに送りますか
"""),
)
NOUNS = {
    "english": ["lamp", "heater", "gate", "boiler", "cable", "blind", "fan", "pump", "shelf", "hinge"],
    "german": [
        "die Lampe",
        "die Heizung",
        "das Tor",
        "der Kessel",
        "das Kabel",
        "die Pumpe",
        "das Regal",
        "der Lüfter",
    ],
    "french": ["la lampe", "le chauffage", "le portail", "la chaudière", "le câble", "la pompe", "l'étagère"],
    "japanese": ["ランプ", "暖房", "門", "ボイラー", "ケーブル", "ポンプ", "棚", "扇風機"],
}
LANGUAGES = {"english": ENGLISH, "german": GERMAN, "french": FRENCH, "japanese": JAPANESE}
GAP = 6
"""Number of last turns without a fact."""


class History(NamedTuple):
    """A conversation in the form of a Talk, and its facts."""

    name: str
    text: str
    facts: tuple[Planted, ...]


def conversation(name: str, language: str, turns: int, seed: int, dump: str = "") -> History:
    """A conversation of `turns` exchanges; with a `dump`, a tool gives two facts in three as records of that form."""
    rng, words = random.Random(seed), LANGUAGES[language]
    facts: list[Planted] = []
    planted: list[list[str]] = [[] for _ in range(turns - GAP)]
    for line in words.facts:
        sentence, question, *later = (part.strip() for part in line.split("|"))
        old, new = _value(sentence, rng), _value(sentence, rng)
        first, second = sorted(rng.sample(range(turns - GAP), 2))
        planted[first].append(_filled(sentence, old))
        if later:
            planted[second].append(_filled(later[0], new))
        facts.append(Planted(question, new, old) if later else Planted(question, old))
    lines = [
        line
        for at in range(turns)
        for line in _turn(planted[at] if at < len(planted) else [], words, NOUNS[language], rng, dump)
    ]
    return History(name, "\n".join(lines), tuple(facts))


def _value(sentence: str, rng: random.Random) -> str:
    before = sentence.partition("@")[0][-1:]
    if before == "P":
        return f"{rng.choice(PEOPLE)}-{rng.randint(10, 99)}"
    if sentence.count("@.") and rng.random() < 0.2:
        return f"{rng.choice(STREETS)} {rng.randint(1, 300)}"
    return str(rng.randint(1_000, 99_999))


def _filled(sentence: str, value: str) -> str:
    return sentence.replace("P@", "@").replace("@", value)


def _turn(facts: list[str], words: Language, nouns: Sequence[str], rng: random.Random, dump: str) -> Iterator[str]:
    """One exchange with the facts in it: in the user's words, in the agent's, or in a result."""
    said = [_chat(words, nouns, rng) for _ in range(rng.randint(1, 3))]
    answered = [_chat(words, nouns, rng) for _ in range(rng.randint(1, 3))]
    found: list[str] = []
    for fact in facts:
        rng.choice([found] if dump and rng.random() < 0.67 else [said, said, answered]).insert(rng.randint(0, 1), fact)
    yield f"user: {' '.join(said)}"
    yield f"desk: {' '.join(answered)}"
    if found or (dump and rng.random() < 0.2):
        yield f"  -> look_up: {rng.randint(100, 999)}"
        yield f"  <- {_dumped(found, words, nouns, rng, dump)}"
        yield f"desk: {_chat(words, nouns, rng)}"


def _chat(words: Language, nouns: Sequence[str], rng: random.Random) -> str:
    return rng.choice(words.chatter).replace("#", rng.choice(nouns))


def _dumped(found: list[str], words: Language, nouns: Sequence[str], rng: random.Random, dump: str) -> str:
    """The facts among twenty records, as JSON on one line, as rows of a table, or as a diff."""
    notes = [*found, *(_chat(words, nouns, rng) for _ in range(20))]
    rng.shuffle(notes)
    records = [{"id": rng.randint(1, 10**6), "by": rng.choice(PEOPLE), "note": note} for note in notes]
    if dump == "json":
        return json.dumps({"page": {"records": records}}, ensure_ascii=False)
    if dump == "diff":
        return "\n     ".join(f"{rng.choice('+-')} # {each['note']}  (line {each['id']})" for each in records)
    return "\n     ".join(["id;by;note", *(f"{each['id']};{each['by']};{each['note']}" for each in records)])


def histories(seed: int = 7) -> list[History]:
    """Nine histories: chats of two lengths, German, French, Japanese, code review, a ledger, and dumps."""
    return [
        conversation("support", "english", 45, seed),
        conversation("long chat", "english", 120, seed + 1),
        conversation("German", "german", 45, seed + 2),
        conversation("French", "french", 45, seed + 3),
        conversation("Japanese", "japanese", 45, seed + 4),
        conversation("code review", "english", 45, seed + 5, "diff"),
        conversation("ledger", "german", 45, seed + 6, "table"),
        conversation("JSON", "english", 45, seed + 7, "json"),
        conversation("Japanese JSON", "japanese", 45, seed + 8, "json"),
    ]
