"""From documents to files of tokens that a trainer reads."""
