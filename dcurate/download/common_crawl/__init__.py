"""Common Crawl: its crawls, the pages in their archives, and the text of these."""
