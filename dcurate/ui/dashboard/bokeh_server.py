"""Adds the dashboard's pages to the Bokeh server that Dask's scheduler has."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import dask
from tornado.ioloop import IOLoop

from dcurate.ui.dashboard.figures import DRAWINGS
from dcurate.ui.dashboard.pages import PAGE, SINGLE, TEXTS, Page, Runs

if TYPE_CHECKING:
    from distributed import Scheduler


def serve(scheduler: Scheduler, store: Runs) -> bool:
    """Serve the dashboard at ``/curation``, and each of its sections at ``/individual-curation-...``.

    To be called on the scheduler's event loop; a second call for the same scheduler does nothing.

    Args:
        scheduler: whose dashboard the pages are added to.
        store: knows the runs.

    Returns:
        Whether they are served: False where the scheduler has no dashboard, as without Bokeh.
    """
    try:
        tornado = importlib.import_module("bokeh.server.tornado")
        importlib.import_module("distributed.dashboard.core")
    except ImportError:
        return False
    servers = scheduler.http_application.applications
    its = next((one for one in servers if isinstance(one, tornado.BokehTornado)), None)
    if its is None:
        return False
    if f"/{PAGE}" in its.app_paths:
        return True
    server = _server(scheduler, store, its)
    # The JupyterLab extension learns of what the first of these has.
    servers.insert(0, server)
    server.initialize(IOLoop.current())
    server.start()
    # Dask shows the same list on each of its pages.
    variables = importlib.import_module("distributed.dashboard.scheduler").template_variables(scheduler)
    variables["pages"].insert(0, PAGE)
    return True


def _server(scheduler: Scheduler, store: Runs, its: Any) -> Any:
    """Our pages, served as Dask serves its own, by a server that names Dask's pages, too."""
    base = importlib.import_module("distributed.dashboard.core").DaskBokehTornado
    allowed = importlib.import_module("bokeh.server.util").create_hosts_allowlist
    options = dask.config.get("distributed.scheduler.dashboard.bokeh-application").copy()
    origins = allowed(options.pop("allow_websocket_origin"), scheduler.http_server.port)
    paths = property(lambda self: {*self.applications, *its.app_paths})
    # (The module's name is in the class's, by which Dask knows servers of this kind.)
    kind = type("Server", (base,), {"app_paths": paths, "__module__": __name__})
    return kind(
        _pages(scheduler, store),
        prefix=its.prefix,
        use_index=False,
        extra_websocket_origins=origins,
        absolute_url="",
        **options,
    )


def _pages(scheduler: Scheduler, store: Runs) -> dict[str, Any]:
    application = importlib.import_module("bokeh.application").Application
    handler = importlib.import_module("bokeh.application.handlers.function").FunctionHandler
    sections: dict[str, str | None] = {f"{SINGLE}{name}": name for name in (*DRAWINGS, "workers", *TEXTS)}
    opens: dict[str, Callable[[Any], None]] = {
        f"/{path}": partial(_open, scheduler, store, only) for path, only in {PAGE: None, **sections}.items()
    }
    return {path: application(handler(open_it)) for path, open_it in opens.items()}


def _open(scheduler: Scheduler, store: Runs, only: str | None, document: Any) -> None:
    asked = document.session_context.request.arguments.get("run", [b""])[-1].decode("utf-8", "replace")
    Page(document, scheduler, store, only, asked).open()
