"""Find lines of text in pictures."""
