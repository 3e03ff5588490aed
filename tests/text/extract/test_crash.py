"""A page that ends the process."""

import json
from pathlib import Path

import pytest

from dcurate import DaskExecutor, JsonlWriter, LocalCluster, Pipeline, WarcReader
from dcurate.core.pipeline import AnyStage
from dcurate.text import HtmlExtractor
from tests.archives import archive, page, warc_record
from tests.text.extract.crashing import CrashOn

pytestmark = pytest.mark.cluster


def test_a_page_that_crashes_the_extractor_is_lost_alone_and_by_name(tmp_path: Path, cluster: LocalCluster) -> None:
    urls = [f"http://example.org/{number}" for number in range(12)]
    records = [warc_record(page(f"<p>{'crash' if url.endswith('/7') else url}</p>"), url) for url in urls]
    (tmp_path / "a.warc.gz").write_bytes(archive(records))
    stages: list[AnyStage] = [
        WarcReader(str(tmp_path / "a.warc.gz")),
        HtmlExtractor(CrashOn("crash")),
        JsonlWriter(str(tmp_path / "out")),
    ]
    Pipeline("web", stages=stages).run(DaskExecutor(cluster=cluster))
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert [row["url"] for row in rows] == urls[:7] + urls[8:]
    (file,) = (tmp_path / "out.dcurate" / "quarantine").glob("*.jsonl")
    (lost,) = map(json.loads, file.read_text().splitlines())
    assert (lost["url"], lost["_dcurate_stage"]) == (urls[7], "html_extractor")
