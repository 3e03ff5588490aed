"""PDFs: text and pages of PDFs without scans, broken fonts and copies; each file that fails has a reason.

pip install 'dcurate[documents,lang]'
dcurate sample papers --pdfs
python pdfs.py papers text
"""

import sys

from dcurate import ExactDuplicates, JsonlWriter, PdfReader, Pipeline, ScoreFilter
from dcurate.documents import BrokenTextFilter, CharactersPerPageFilter, PdfExtract
from dcurate.text import LanguageId


def pipeline(source: str, output: str) -> Pipeline:
    """Each PDF is read in a child process with limits of time and memory."""
    return Pipeline(
        "pdfs",
        stages=[
            PdfReader(source),
            PdfExtract(),
            ScoreFilter(CharactersPerPageFilter(min_chars=50)),  # scans; PdfExtract(ocr="auto") reads them
            ScoreFilter(BrokenTextFilter(max_broken_ratio=0.1)),
            LanguageId(),
            ExactDuplicates(),
            JsonlWriter(output),
        ],
    )


if __name__ == "__main__":
    print(pipeline(*sys.argv[1:3]).run())
