"""Mathematics: the pages of a crawl that have formulas, as Markdown with LaTeX.

pip install 'dcurate[html,lang]'
dcurate sample crawl --math
python mathematics.py crawl math
"""

import re
import sys

from dcurate import ExactDuplicates, FuzzyDuplicates, JsonlWriter, Pipeline, ScoreFilter, WarcReader
from dcurate.text import DcurateExtractor, DocumentFilter, HtmlExtractor, LanguageFilter, WordCountFilter

#: Formulas between delimiters of TeX; "$5 and $6" are amounts of money, as they have no command and no relation.
FORMULA = re.compile(
    r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$?[^$\n]{0,2000}?(?:\\[a-zA-Z]+|[\^_=])[^$\n]{0,2000}?\$\$?", re.DOTALL
)


class FormulasFilter(DocumentFilter):
    """Keep documents with a minimum number of formulas per 100 words."""

    name = "formulas"

    def __init__(self, min_per_100_words: float = 1.0):
        self.min_per_100_words = min_per_100_words

    def score_document(self, text: str) -> float:
        return 100 * len(FORMULA.findall(text)) / (len(text.split()) or 1)

    def keep_document(self, score: float) -> bool:
        return score >= self.min_per_100_words


def pipeline(source: str, output: str) -> Pipeline:
    """The extractor writes MathML, MathJax, KaTeX and images of formulas in one notation."""
    return Pipeline(
        "mathematics",
        stages=[
            WarcReader(source, mime_types=["text/html"]),
            HtmlExtractor(DcurateExtractor(markdown=True)),
            ScoreFilter(FormulasFilter(), score_field="formulas"),
            ScoreFilter(LanguageFilter("en"), score_field="language"),
            ScoreFilter(WordCountFilter(min_words=50)),
            ExactDuplicates(id_field="url"),
            FuzzyDuplicates(id_field="url"),
            JsonlWriter(output, fields=["url", "title", "text", "formulas"]),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
