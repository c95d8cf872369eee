"""The languages that statements are in, by the names that people and systems give them."""

from __future__ import annotations

import posixpath
import re

# Languages by the names that Polygon and authors of tasks write, as ISO 639 codes.
LANGUAGES = {
    "afrikaans": "af", "albanian": "sq", "arabic": "ar", "armenian": "hy", "azerbaijani": "az", "bangla": "bn",
    "belarusian": "be", "bengali": "bn", "bulgarian": "bg", "catalan": "ca", "chinese": "zh", "croatian": "hr",
    "czech": "cs", "danish": "da", "dutch": "nl", "english": "en", "estonian": "et", "finnish": "fi", "french": "fr",
    "georgian": "ka", "german": "de", "greek": "el", "hebrew": "he", "hindi": "hi", "hungarian": "hu",
    "indonesian": "id", "italian": "it", "japanese": "ja", "kazakh": "kk", "korean": "ko", "kyrgyz": "ky",
    "latvian": "lv", "lithuanian": "lt", "macedonian": "mk", "mongolian": "mn", "norwegian": "no", "persian": "fa",
    "polish": "pl", "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr", "slovak": "sk",
    "slovenian": "sl", "spanish": "es", "swedish": "sv", "tajik": "tg", "tatar": "tt", "thai": "th", "turkish": "tr",
    "turkmen": "tk", "ukrainian": "uk", "uzbek": "uz", "vietnamese": "vi",
}  # fmt: skip


def code(language: str) -> str:
    """A language's code; what is no known name stays, as far as it can be a code."""
    name = language.strip().lower()
    return LANGUAGES.get(name) or (name if re.fullmatch(r"[a-z]{2,3}", name) else "")


def language_of(path: str, name: str) -> str:
    """The language that a statement's file is called by, as `italian.pdf`, `en.pdf` or `NAME-de.pdf`; or nothing."""
    stem = posixpath.splitext(posixpath.basename(path))[0]
    for prefix in ("statement", "testo", "problem", name):
        if stem.lower().startswith(prefix.lower()) and stem[len(prefix) : len(prefix) + 1] in {".", "_", "-"}:
            stem = stem[len(prefix) + 1 :]
            break
    if stem.lower() in LANGUAGES:
        return LANGUAGES[stem.lower()]
    return stem.replace("_", "-") if re.fullmatch(r"[A-Za-z]{2}(?:[_-][A-Za-z]{2,4})?", stem) else ""
