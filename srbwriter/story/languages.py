"""Language tags (BCP 47), which books use, and language names.

Two-letter subtags must be in ISO 639-1. Every three-letter subtag is accepted, since there are thousands;
longer ones are reserved by the standard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import environ

_TAG = re.compile(
    r"[a-z]{2,3}(?:-[a-z]{3}){0,3}"  # a language, with what extends it
    r"(?:-[a-z]{4})?"  # script
    r"(?:-(?:[a-z]{2}|[0-9]{3}))?"  # region
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"  # variants
    r"(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*"  # extensions
    r"(?:-x(?:-[a-z0-9]{1,8})+)?",  # private use
    re.IGNORECASE,
)
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts, as for every program

_TWO_LETTERS = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
    dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
    ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
    lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
    rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to
    tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()
)

_NAMES: dict[str, str] = {
    name: tag
    for line in """
    af Afrikaans | ar Arabic العربية | be Belarusian беларуская | bg Bulgarian български | bn Bengali বাংলা
    br Breton Brezhoneg | bs Bosnian Bosanski | ca Catalan Català | cs Czech Čeština | cy Welsh Cymraeg
    da Danish Dansk | de German Deutsch | el Greek Ελληνικά | en English | eo Esperanto
    es Spanish Español Castellano | et Estonian Eesti | eu Basque Euskara | fa Persian Farsi فارسی
    fi Finnish Suomi | fr French Français | ga Irish Gaeilge | gd Gaelic Gàidhlig | gl Galician Galego
    he Hebrew עברית | hi Hindi हिन्दी | hr Croatian Hrvatski | hu Hungarian Magyar | hy Armenian Հայերեն
    id Indonesian | is Icelandic Íslenska | it Italian Italiano | ja Japanese 日本語 | ka Georgian ქართული
    kk Kazakh Қазақ | ko Korean 한국어 | la Latin Latina | lb Luxembourgish | lt Lithuanian Lietuvių
    lv Latvian Latviešu | mk Macedonian македонски | mn Mongolian | ms Malay Melayu | mt Maltese Malti
    nb Bokmål | nl Dutch Nederlands | nn Nynorsk | no Norwegian Norsk | pl Polish Polski
    pt Portuguese Português | ro Romanian Română | ru Russian русский | sk Slovak Slovenčina
    sl Slovene Slovenian Slovenščina | sq Albanian Shqip | sr Serbian српски | sv Swedish Svenska
    sw Swahili Kiswahili | ta Tamil தமிழ் | te Telugu తెలుగు | th Thai ไทย | tl Tagalog Filipino
    tr Turkish Türkçe | uk Ukrainian українська | ur Urdu اردو | vi Vietnamese | yi Yiddish ייִדיש
    zh Chinese Mandarin 中文
    """.strip().splitlines()
    for tag, *names in (entry.split() for entry in line.split("|"))
    for name in map(str.casefold, names)
}


def language_tag(words: str) -> str | None:
    """Return the tag for a tag, a locale (``pt_BR.UTF-8``) or a name (``Deutsch``), or None."""
    if (named := _NAMES.get(" ".join(words.split()).casefold())) is not None:
        return named
    tag = re.sub(r"[.@].*", "", words.strip()).replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    first, *rest = tag.split("-")
    if len(first) == 2 and first.lower() not in _TWO_LETTERS:
        return None
    return "-".join([first.lower(), *map(_subtag, rest)])


def default_language(environment: Mapping[str, str] = environ) -> str:
    """Return the language of the locale; English if it has none."""
    locale_name = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    tag = language_tag(locale_name)
    return "en" if tag is None or locale_name.upper().startswith(("C.", "POSIX")) else tag


def _subtag(part: str) -> str:
    """Return a subtag in its usual case: regions in capitals, scripts capitalised."""
    if len(part) == 2 and part.isalpha():
        return part.upper()
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()
