"""Books: the prose of a library, without running heads, indexes, and passages that are printed twice.

dcurate sample library
python books.py library books
"""

import sys

from dcurate import Filter, JsonlReader, Modify, ParquetWriter, Pipeline, ScoreFilter, SubstringDuplicates
from dcurate.text import LineRemover, NewlineNormalizer, PunctuationFilter, RepeatedLinesFilter, WordCountFilter


def is_book(source: str) -> bool:
    return source == "gutenberg"


def pipeline(source: str, output: str) -> Pipeline:
    """The part of a corpus that is books; `SubstringDuplicates` cuts passages and keeps the book."""
    return Pipeline(
        "books",
        stages=[
            JsonlReader(source, on_bad_line="quarantine"),
            Filter(is_book, "source"),
            Modify([NewlineNormalizer(), LineRemover(patterns=["*** START OF", "*** END OF", "[Illustration"])]),
            ScoreFilter(WordCountFilter(min_words=100), score_field="words"),
            ScoreFilter(RepeatedLinesFilter()),  # running heads
            ScoreFilter(PunctuationFilter()),  # tables of contents, indexes
            SubstringDuplicates(min_bytes=200),
            ParquetWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
