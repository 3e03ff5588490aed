"""How much of a text is in capitals."""

from __future__ import annotations

from dcurate.text import DocumentFilter


class ShoutingFilter(DocumentFilter):
    """Keep texts with at most this share of capitals among their letters.

    Args:
        max_share: share of capitals, 0 to 1.

    Examples:
        >>> rule = ShoutingFilter(max_share=0.5)
        >>> rule.keep_document(rule.score_document("LOUD")), rule.keep_document(rule.score_document("Calm"))
        (False, True)
    """

    def __init__(self, max_share: float = 0.5) -> None:
        super().__init__()
        self.max_share = max_share

    def score_document(self, text: str) -> float:
        letters = [letter for letter in text if letter.isalpha()]
        return sum(letter.isupper() for letter in letters) / len(letters) if letters else 0.0

    def keep_document(self, score: float) -> bool:
        return score <= self.max_share
