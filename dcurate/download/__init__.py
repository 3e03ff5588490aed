"""Sources that are downloaded: listing, resumable transfers, records, text."""
