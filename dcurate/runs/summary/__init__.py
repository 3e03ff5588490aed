"""The public summary of training content that Article 53(1)(d) of the AI Act asks for, as far as it can be counted."""
