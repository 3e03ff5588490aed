"""Serve the dashboard's pages on the Bokeh server of Dask's scheduler."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dcurate.cluster import compat
from dcurate.ui.dashboard.figures import DRAWINGS
from dcurate.ui.dashboard.pages import PAGE, SINGLE, TEXTS, Page, Runs

if TYPE_CHECKING:
    from distributed import Scheduler


def serve(scheduler: Scheduler, store: Runs) -> bool:
    """Serve the dashboard at ``/curation``, and each of its sections at ``/individual-curation-...``.

    Call it on the scheduler's event loop; a second call for the same scheduler does nothing.

    Args:
        scheduler: scheduler whose dashboard the pages are added to.
        store: has the histories of the runs.

    Returns:
        Whether they are served: False if the scheduler has no dashboard, as without Bokeh.
    """
    sections: dict[str, str | None] = {f"{SINGLE}{name}": name for name in (*DRAWINGS, "workers", *TEXTS)}
    pages: dict[str, str | None] = {PAGE: None, **sections}
    return compat.serve_pages(scheduler, {path: partial(_open, scheduler, store, only) for path, only in pages.items()})


def _open(scheduler: Scheduler, store: Runs, only: str | None, document: Any) -> None:
    asked = document.session_context.request.arguments.get("run", [b""])[-1].decode("utf-8", "replace")
    Page(document, scheduler, store, only, asked).open()
