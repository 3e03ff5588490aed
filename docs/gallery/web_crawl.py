"""Web crawl: WARC files become clean English text without personal data and copies, as Parquet.

pip install 'dcurate[html,lang]'
dcurate sample crawl --crawl
python web_crawl.py crawl web
"""

import sys

from dcurate import ExactDuplicates, FuzzyDuplicates, Modify, ParquetWriter, Pipeline, ScoreFilter, WarcReader
from dcurate.text import HtmlExtractor, LanguageFilter, PiiModifier
from dcurate.text.presets import gopher


def pipeline(source: str, output: str) -> Pipeline:
    """What costs least and drops most comes first."""
    return Pipeline(
        "web-crawl",
        stages=[
            WarcReader(source, mime_types=["text/html"]),  # damaged records go to quarantine
            HtmlExtractor("dcurate"),
            ScoreFilter(LanguageFilter("en", min_score=0.65), score_field="language"),
            ScoreFilter(gopher(), name="gopher"),
            Modify(PiiModifier(anonymize_action="replace")),
            ExactDuplicates(id_field="url"),
            FuzzyDuplicates(threshold=0.8, id_field="url"),
            ParquetWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
