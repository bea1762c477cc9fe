"""Writes bleu/NAME.{hyp,ref} and bleu/scores.tsv: what sacreBLEU 2.6.0 says about 20 small
translations, for tests/test_bleu.cpp. Run: pip install sacrebleu==2.6.0; python make_bleu.py

References are sentences below; hypotheses are the same with words dropped, swapped, doubled,
replaced or in another case (a fixed seed), or are given.
"""
import pathlib
import random

from sacrebleu.metrics import BLEU, CHRF

OUT = pathlib.Path(__file__).parent / "bleu"

REFERENCES = {
    "plain": """Two young men are outside near many bushes.
A little girl climbs into a wooden playhouse.
A man in a blue shirt is standing on a ladder cleaning a window.
The dog runs across the wet grass with a stick in its mouth.
Several women wait for the train, and nobody talks.""",
    "punctuation": """Well... who knows?! Not me; not you: nobody.
(See [1], {2} and <3> -- or don't.)
"Quoted," he said, 'twice': `code`, ~home, a|b, a\\b, a/b.
Wait--what? Yes,no,maybe. End.Next;third
Mr. Smith, Jr., U.S.A., e.g. this, i.e. that, etc.
*bold* _under_ ^up^ #tag @you 100% =x+y-z""",
    "numbers": """In 1999, 3.5 million people (1,000,000 more than 2.5%) moved.
The 1990-91 season: 5-3, 10-0 and -7.
Call 555-1234 at 12:30 or 09.15 on 24.12.2024.
.5 is half, 5. is five, 1,2 and 3.,4
Version 2.0.1-beta costs 9,99 and 10.-
1/2 + 1/4 = 0.75 ; 2^10=1024, 7-""",
    "french": """L'été dernier, nous sommes allés à la plage près d'Étretat.
« Qu'est-ce que c'est ? » demanda-t-elle à sa sœur.
Le garçon n'a pas mangé l'œuf ; il préfère les crêpes sucrées !
Où est-ce que l'élève a mis ses lunettes aujourd'hui ?
Ça coûte 12,50 € l'unité, c'est-à-dire très cher.""",
    "german": """Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.
Die Straße ist naß, sagte der Müller; Übermut tut selten gut.
Ein Mann in einem blauen Hemd putzt ein Fenster.
Der 3. Oktober ist der Tag der Deutschen Einheit, z. B. in Köln.
GROẞE FÜSSE brauchen große Schuhe.""",
    "greek": """Ο ΟΔΥΣΣΕΑΣ ΓΥΡΙΖΕΙ ΣΤΗΝ ΙΘΑΚΗ ΜΕ ΤΟΥΣ ΣΥΝΤΡΟΦΟΥΣ ΤΟΥ.
Ο σκύλος τρέχει στον δρόμο· η γάτα κοιμάται.
ΣΑΣ ΕΥΧΑΡΙΣΤΩ, ΦΙΛΕ ΜΟΥ!
Σ ΣΣ ΑΣ. ΑΣ'Σ ΑΣ-Σ (ΑΣ)""",
    "turkish": """İstanbul'da IŞIKLAR yanıyor, İzmir'de yağmur var.
Iğdır ve İnegöl ARASINDA uzun bir yol var.
İyi günler! ÇOK GÜZEL.""",
    "russian": """Маленькая девочка забирается в деревянный домик.
Две собаки играют на СНЕГУ, а третья спит.
Цена: 1 500 руб. 50 коп. — дорого?
«Кто там?» — спросил Ёж.""",
    "cjk": """两个年轻的白人男子在户外,靠近许多灌木丛。
彼は「こんにちは」と言った。そして、帰った!
두 마리의 개가 눈 속에서 놀고 있다.
价格是3.5元,不是 4元。""",
    "rtl": """شاب يقف على سلم وينظف النافذة.
הילד אוכל תפוח אדום, והילדה ישנה.
السعر 12.5 دولار؟ نعم، غالٍ!""",
    "emoji": """I love it 🙂🙂 so much!
👩‍👩‍👧 family 🇫🇷 flag 👍🏽 ok.
math 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒙² ≤ ½ … done
e\u0301te\u0301 is not été, or is it?""",
    "entities": """Tom &amp; Jerry said &quot;hello&quot; &lt;b&gt;twice&lt;/b&gt;.
AT&T &amp;amp; &amp;lt; &nbsp; & alone &;
<skipped> text <skipped>here&apos;s
5 &lt; 6 &gt; 4 &quot""",
    "hyphens": """A well-known state-of-the-art T-shirt, 20-year-old, mid-1990s.
Long – en dash, — em dash, ‐ hyphen, ‑ non-breaking, − minus.
- item one
-- x - y -z- 3-D 4-- -5
anti-\u00adviral co\u00adoperate""",
    "currency": """It costs $5.99, £4, €3,50 or ¥600.
Prices rose 3.2% to $1,234,567.89 (US$).
50¢ + 10₽ = nothing; 5$ and 5 €.
#1 at 99.9%!""",
    "spaces": """a\u00a0b c\u202fd e\u3000f g\u2009h
  leading and trailing  \u00a0
tab\there\x0bvertical\x0cfeed\x1cfile\x85next
zero\u200bwidth joiner\u2060x\ufeffy
line\u2028separator\u2029paragraph \u1680 ogham
carriage return\r""",
    "web": """See https://example.com/a?b=1&c=2#d, or mail me@site.co.uk.
On 2024-01-31T12:00:00Z, C++20 and C# met F#.
File: C:\\dir\\x.txt, ~/y.tar.gz; key=value, a_b
@user: RT #news... pic.example/abc""",
}

OTHERS = {
    "equal": (["The same sentence, twice over.", "Another one!"],) * 2,
    "nothing": (["aaa bbb ccc ddd eee", "", "fff"], ["one two three four", "five six", ""]),
    "short": (["Yes.", "No", "a b c", "x", "", "Hi !"], ["Yes.", "Yes", "a b d", "x", "", "Hi!"]),
    "empty": (["", "", "\u00a0"], ["something here", "", "more of it"]),
}

OPTIONS = [(tok, lower, "exp", None, False) for tok in ("13a", "char", "none")
           for lower in (False, True)]
OPTIONS += [("13a", False, "exp", None, True), ("13a", False, "none", None, False),
            ("13a", False, "floor", None, False), ("13a", True, "floor", 0.5, True),
            ("13a", False, "add-k", None, False), ("none", False, "add-k", 0.25, True)]


def worse(line, rng):
    """The line with some of its words changed."""
    words = line.split(" ")
    for _ in range(1 + len(words) // 3):
        i = rng.randrange(len(words))
        change = rng.choice(["drop", "swap", "double", "upper", "lower", "lower", "cut"])
        if change == "drop" and len(words) > 1:
            del words[i]
        elif change == "swap":
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif change == "double":
            words.insert(i, words[i])
        elif change == "upper":
            words[i] = words[i].upper()
        elif change == "lower":
            words[i] = words[i].lower()
        else:
            words[i] = words[i][:max(1, len(words[i]) - 2)]
    return " ".join(words)


def corpora():
    for number, (name, text) in enumerate(REFERENCES.items()):
        rng = random.Random(number)
        references = text.split("\n")
        hypotheses = [line if rng.random() < 0.2 else worse(line, rng) for line in references]
        yield name, hypotheses, references
    for name, (hypotheses, references) in OTHERS.items():
        yield name, hypotheses, references


def rows():
    yield "name\ttokens\tlowercase\tsmoothing\tvalue\teffective\tscore\tprinted"
    for name, hypotheses, references in corpora():
        for side, lines in (("hyp", hypotheses), ("ref", references)):
            with open(OUT / f"{name}.{side}", "w", encoding="utf-8", newline="") as file:
                file.write("\n".join(lines) + "\n")
        for tok, lower, smooth, value, effective in OPTIONS:
            metric = BLEU(tokenize=tok, lowercase=lower, smooth_method=smooth, smooth_value=value,
                          effective_order=effective)
            score = metric.corpus_score(list(hypotheses), [list(references)])
            printed = score.format(signature=str(metric.get_signature()))
            yield (f"{name}\t{tok}\t{int(lower)}\t{smooth}\t{value or ''}\t{int(effective)}\t"
                   f"{score.score!r}\t{printed}")
        for lower in (False, True):
            metric = CHRF(lowercase=lower)
            score = metric.corpus_score(list(hypotheses), [list(references)])
            printed = score.format(signature=str(metric.get_signature()))
            yield f"{name}\tchrf\t{int(lower)}\t\t\t\t{score.score!r}\t{printed}"


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    (OUT / "scores.tsv").write_text("\n".join(rows()) + "\n", encoding="utf-8")
