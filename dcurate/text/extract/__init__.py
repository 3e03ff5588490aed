"""HTML to text."""
