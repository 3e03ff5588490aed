"""Views of a run: terminal, notebook, dashboard, pages and metrics."""
