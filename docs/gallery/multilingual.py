"""Many languages: each document gets its language, each language limits of its own and a folder of its own.

pip install 'dcurate[lang]'
dcurate sample texts --languages
python multilingual.py texts languages
"""

import sys

from dcurate import ExactDuplicates, Filter, FuzzyDuplicates, JsonlReader, JsonlWriter, Modify, Pipeline, ScoreFilter
from dcurate.text import LanguageId, NewlineNormalizer, UnicodeReformatter, UrlsFilter

#: Fewest characters of a document. A character of Chinese carries about as much as four of English.
SHORTEST = {"zh": 80, "ja": 100, "ko": 120}


def long_enough(text: str, language: str) -> bool:
    return len(text) >= SHORTEST.get(language, 300)


def pipeline(source: str, output: str) -> Pipeline:
    """Rules that count English words come only where a language separates words by spaces; these do not."""
    return Pipeline(
        "multilingual",
        stages=[
            JsonlReader(source),
            Modify([UnicodeReformatter(normalization="NFC"), NewlineNormalizer()]),
            LanguageId(),
            Filter([lambda score: score >= 0.5], "language_score"),
            Modify(long_enough, [["text", "language"]], "long_enough"),
            Filter(lambda answer: answer, "long_enough"),
            ScoreFilter(UrlsFilter(max_url_to_text_ratio=0.2)),
            ExactDuplicates(),
            FuzzyDuplicates(threshold=0.8),
            JsonlWriter(output, separate_by="language"),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
