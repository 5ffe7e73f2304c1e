"""The constructions that scripts/check/language finds: for each a name, the better form that a finding shows, and regular expressions.

They are searched in each sentence, in which a piece of code is one word. Headings are not searched."""

import re

_BE = r"(?:is|are|was|were|be)"
_ARTICLE = r"(?:a|an|the|its|their|one|all|each|every|this|that|it|they)"
_STAND = r"(?:stands?|lies?|comes?|goes|sits?|belongs?|follows?|appears?|remains?)"

_RULES = {
    "who-subject": ('name the actor: "A program that needs …"',
                    r"(?:^|[;:] )(?:[Ww]ho|[Ww]hoever|Whose)\b", r"\b(?:so that|because|but|if|than|that) who\b"),
    "what-subject": ('name the thing: "The files that …"', r"(?:^|; )[Ww]hat\b"),
    "where-condition": ('"if" or "when": "where" is for places',
                        r"(?:^|; )[Ww]here\b",
                        r"\b(?:only|except|even|also|fails?|skipped|refused|needed|ignored|used|possible|useful) where\b",
                        r"[,;(] ?where (?:it|that|this|these|those|one|both|possible|needed|necessary|known)\b",
                        r"\bwhere (?:there (?:is|are)|nothing|neither|nobody|none|no \w+(?! can\b))\b",
                        rf"\bwhere (?:it|that|this) {_BE} (?:not|missing|there|set|given|known|possible|needed)\b"),
    "begin-noun": ('"beginning" or "start"', r"\b(?:at|from|since|before|in|the|its|their|each|every|of) begin\b(?![-(])"),
    "not-until": ('the subject first: "X happens after Y"', r"^Not (?:until|before)\b", r"^Only (?:then|when|if|after|once|where)\b"),
    "inversion": ('the subject first',
                  r"^(?:Never|Nor|Neither|Not only|Hardly|Seldom|Rarely|No sooner|Nowhere|So|Such|Gone|Likewise|Thus|Here|Now|Then|Next|Also) "
                  rf"(?:do|does|did|has|have|had|can|may|will|must|{_BE}|{_STAND}|begins?)\b"),
    "place-first": ('the subject first: "The key stands in …"',
                    rf"^(?:Behind|Beside|Below|Above|Within|Under|Over|In|On|To|From|With|Of|At|Among|Between) (?:[^\s,]+ ){{1,5}}{_STAND} {_ARTICLE}\b"),
    "verb-first-condition": ('a condition begins with "if"', rf"^(?:Were|Had|Should) (?:{_ARTICLE}|you)\b"),
    "carried-out": ('"run", "execute" or "do"', r"\bcarr(?:y|ies|ied|ying) (?:it |them |this )?out\b"),
    "looks-on": ('"look at"', r"\blook(?:s|ed|ing)? on\b"),
    "is-no": ('"is not a …" or "there is no …"',
              rf"(?<![Tt]here )\b{_BE} no (?!(?:longer|more|less|fewer|better|worse|later|earlier|further|larger|smaller|"
              r"slower|faster|greater|higher|lower|older|newer|shorter|way|need|reason|one)\b)\w+"),
    "the-below": ('name the thing: "this table", "the next section"', r"\bthe (?:above|below)(?= *(?:[.,;:)]|$|(?:and|or|is|are|has|holds)\b))", r"\bof the (?:above|below)\b"),
    "lasting": ('"has been in … for 13 s"',
                r"\b(?:is|are|waits?|hangs?|runs?|stands?) (?:[^.;,]{1,40} )?since (?:\d|some|an? )",
                r"\b(?:is|are) (?:in|at) (?:[^.;,]{1,40} )?for (?:\d[\d.]*|some|Qq\w+) (?:m?s|seconds|minutes|hours)\b"),
    "less-countable": ('"fewer"', r"\bless (?:calls|ranks|bytes|processes|copies|hosts|messages|elements|words|lines|steps|threads|files|errors|options|cores|members|"
                                  r"functions|tests|places)\b"),
    "so-many": ('"this many", or the number', r"\b(?:at most|at least|after|only|for|within) so (?:many|much|long|few)\b"),
    "allows-to": ('"lets a program do …" or "can"', r"\b(?:allow|permit|enable)(?:s|ed)? to (?!be\b)\w+"),
    "is-said": ('"is printed" or "is reported"', rf"\b{_BE} said\b"),
    "is-to-be": ('"must be" or "is …"', r"\b(?:is|are|was|were) to be\b"),
    "had": ('"is available" or "can be fetched"', r"\bbe had\b"),
    "but-for": ('"except" or "only"', r"\bbut for\b", r"\b(?:all|none|nothing|everything|anything|nobody|everybody) but (?!it|they|that|not|only|also)\b"),
    "else-adverb": ('"otherwise"', r"[,;] else\b", r"^Else\b"),
    "for-that": ('name the purpose: "For this purpose, …"', rf"^(?:For|To|With|In|At|By) that,? (?:{_ARTICLE}|there)\b"),
    "archaic": ("a word of today", r"\b(?:there|where|here)(?:of|in|by|with|upon|to)\b", r"\b(?:whence|thence|hitherto|henceforth|lest|save for|for want of|till|ere)\b"),
    "behind-after": ('"after"', r"\bbehind (?:it|them|that|which|this|`)(?=[ .,;:)]|$)",
                     r"\bbehind (?:the|a|an|each|every|its) (?:options?|words?|names?|calls?|lines?|numbers?|commands?|colon|barrier|last|first|code|text)\b"),
    "not-english": ("the English form", r"\b(?:informations|datas|softwares|hardwares|advices|in the moment|so to say|be it)\b",
                    r"\b(?:depend(?:s|ing)? (?:of|from)|according the|independent from|different to|responsible of)\b"),
}

# A question may begin with these.
_NOT_IN_QUESTIONS = {"who-subject", "what-subject", "where-condition", "inversion"}
RULES = {name: (better, [re.compile(pattern) for pattern in patterns]) for name, (better, *patterns) in _RULES.items()}

# The checks of proselint that fit technical texts.
PROSELINT = ("archaism", "cliches", "hedging", "industrial_language.bureaucratese", "industrial_language.commercialese",
             "industrial_language.corporate_speak", "lexical_illusions", "malapropisms", "misc.back_formations", "misc.illogic", "misc.many_a",
             "misc.metadiscourse", "mixed_metaphors", "mondegreens", "nonwords", "oxymorons", "redundancy.garner", "redundancy.ras_syndrome", "spelling")


def broken_rules(sentence):
    """Yields the name, the better form and the match, for each rule that this sentence breaks."""
    question = sentence.rstrip("\"') ").endswith("?")
    for name, (better, patterns) in RULES.items():
        if question and name in _NOT_IN_QUESTIONS:
            continue
        found = next(filter(None, (pattern.search(sentence) for pattern in patterns)), None)
        if found:
            yield name, better, found
