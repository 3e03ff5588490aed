"""Wikipedia: which dumps are complete, the articles in them, and their text."""
