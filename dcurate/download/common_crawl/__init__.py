"""Common Crawl: its crawls, the pages in their archives, and their text."""
