"""arXiv: the archives of LaTeX sources, their papers and texts."""
