"""Downloaded sources: listing, resumable transfers, records, text."""
