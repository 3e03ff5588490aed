"""arXiv: the archives of LaTeX sources, the papers in them, and their text."""
