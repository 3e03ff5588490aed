"""PDF, office and ebook files to text."""
