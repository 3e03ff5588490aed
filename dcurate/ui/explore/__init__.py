"""A local page to look at the documents of a finished run."""
