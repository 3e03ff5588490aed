"""The dashboard: pages on the server of Dask's own dashboard that show runs while they go on, and after."""

from __future__ import annotations

from dcurate.ui.dashboard.bokeh_server import serve

__all__ = ["serve"]
