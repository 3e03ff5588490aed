"""Take documents out of all that was made of a corpus, with one receipt."""
