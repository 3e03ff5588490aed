"""Images: properties, quality signals, hashes, near-duplicates, and documents of text and pictures."""
