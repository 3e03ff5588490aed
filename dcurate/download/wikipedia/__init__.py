"""Wikipedia: complete dumps, their articles, and plain text."""
