"""An extractor that ends its process on some pages, as native code may."""

import os
from dataclasses import dataclass

from dcurate.text import HTMLExtractorAlgorithm


@dataclass
class CrashOn(HTMLExtractorAlgorithm):
    mark: str

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str]:
        if self.mark in html:
            os._exit(139)
        return [html]
