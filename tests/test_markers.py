"""The order of the tests and what runs beside what follow from their markers; see `tests.conftest`."""

from __future__ import annotations

import pytest

from tests.conftest import pytest_collection_modifyitems, start_order


def test_a_module_that_can_start_dask_processes_must_be_marked(request, monkeypatch):
    item = request.node
    pytest_collection_modifyitems(request.config, [item])
    monkeypatch.setattr(request.module, "LocalCluster", object(), raising=False)
    with pytest.raises(pytest.UsageError, match=r"^tests/test_markers\.py: .* pytest\.mark\.cluster`$"):
        pytest_collection_modifyitems(request.config, [item])
    item.add_marker("cluster")
    pytest_collection_modifyitems(request.config, [item])


def test_cluster_tests_begin_before_programs_and_these_before_the_rest(request):
    orders = [start_order(request.node)]
    for marker in ("program", "cluster"):
        request.node.add_marker(marker)
        orders.append(start_order(request.node))
    assert orders == [2, 1, 0]
