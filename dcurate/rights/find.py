"""The stage that adds what the owners of pages say about their use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dcurate.core.kernels import Kernels
from dcurate.core.stage import ProcessingStage, Spec, WorkerMetadata
from dcurate.errors import DataError, PipelineError, listed
from dcurate.frames.columns import column_of, optional_values, with_texts_each
from dcurate.frames.document import DocumentBatch
from dcurate.frames.text import encodable
from dcurate.io.files import is_names
from dcurate.isolate.errors import MediaFault
from dcurate.kernels.rights_tags import KERNELS
from dcurate.media.contents import contents, recordings_of
from dcurate.media.refs import REF, has_bytes, quarantined, with_columns
from dcurate.media.rows import row_refs
from dcurate.rights.files import of_file
from dcurate.rights.licence_texts import stated_licences
from dcurate.rights.licences import is_known
from dcurate.rights.markup import rights_tags
from dcurate.rights.robots import host_and_path
from dcurate.rights.robots_files import RobotsTable, robots_table, robots_version
from dcurate.rights.signals import (
    LONGEST,
    LONGEST_ADDRESS,
    MOST,
    UNKNOWN,
    RightsSignal,
    RightsSignals,
    RightsVerdict,
    of_headers,
    of_page,
    of_robots,
    of_site,
    verdict_of,
)

#: Media types of pages with tags.
_PAGES = ("text/html", "application/xhtml+xml")


class _Sources(NamedTuple):
    """The values of the columns of a row, None for one that is missing."""

    url: str | None
    headers: str | None
    page: bytes | str | None
    charset: str | None
    mime_type: str | None
    robots: str | None
    tdmrep: str | None
    rsl: str | None
    file: bytes | None
    licence: Any
    referred: RightsSignals | None


@dataclass
class FindRights(ProcessingStage[DocumentBatch, DocumentBatch]):
    r"""Add what the owners of pages say about their use: headers, markup and robots.txt of each row; drop none.

    It reads those of these columns that rows have; at least one of ``headers_field``, ``html_field``,
    ``robots_field``, ``tdmrep_field``, ``rsl_field``, ``file_field`` and ``licence_field`` must be there, or
    ``robots_path`` be set. The columns that it adds, after ``rights_``:

    - ``train``, ``search``: whether the page may be used to train models, and for search; null if nothing is said.
    - ``licences``: a list of licences, as SPDX identifiers or expressions where they are known, else as addresses or,
      of ``licence_field``, as they are written.
    - ``conflict``: whether signals contradict each other. The strictest counts.
    - ``signals``: a list of what is said and where, such as ``header Content-Usage: train-ai=n -> train=no``, at most
      32. One without an arrow has no effect; what is not understood says so, and is not guessed.

    Signals are ``Content-Usage`` (draft-ietf-aipref-vocab-06, in headers and robots.txt), ``Content-Signal`` of
    robots.txt, TDMRep (headers, ``<meta>``, tdmrep.json, XMP), IPTC's Data Mining (XMP), the assertion of C2PA and CAWG
    on training and data mining, ``X-Robots-Tag`` and ``<meta name="robots">``, RSL 1.0, and which crawlers of AI
    robots.txt does not let fetch the page. Notices in EXIF, IPTC-IIM, PDF, PNG, and in films and sounds have no effect,
    unless they name a licence. Nothing is fetched: that a licence is elsewhere is a signal without an effect.
    Signatures are not checked. Time is linear in the size of a row.

    Args:
        url_field: the column with the address, which rules for paths need.
        headers_field: the column with the headers of the response, as `WarcReader` gives it.
        html_field: the column with the page, as bytes or text.
        robots_field: the column with robots.txt of the host, of which 500 KiB are read.
        tdmrep_field: the column with ``/.well-known/tdmrep.json`` of the host.
        rsl_field: the column with a document of RSL that is for the page.
        file_field: the column with the bytes of a file of any kind, such as an image, whose metadata are read. Files
            that rows refer to, as those of `MediaReader`, are fetched; rows whose file cannot be go to quarantine.
        licence_field: the column with a licence, as rows of code have it: an SPDX identifier or expression, an address,
            the text of a licence, or a list of these.
        charset_field: the column with the charset that the server declared.
        mime_type_field: the column with the media type: tags are looked for in HTML only, metadata in what is not HTML.
            Null is HTML.
        robots_path: Parquet files that `RobotsFiles` wrote, with robots.txt by host, for rows without
            ``robots_field``. Each process holds them in memory, compressed, and refuses more than 4 GiB.
        storage_options: fsspec's, for these files and those that rows refer to.
        agent: name of the crawler that fetched the pages, whose rules of robots.txt count.
        train_tags: directives of robots that forbid training; add ``"noimageai"`` for rows of images.
        prefix: comes before the name of every column.
        name: name of the stage.

    Raises:
        PipelineError: ``train_tags`` or ``robots_path`` are of another type, or ``agent`` is not a name.
        DataError: the rows have none of the columns.
        ResourceError: a file has a C2PA assertion in CBOR, and the extra ``rights`` is not installed.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"http_headers": ["HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n, search=y"]})
        >>> [row] = FindRights().process(DocumentBatch(data=rows)).to_arrow().to_pylist()
        >>> row["rights_train"], row["rights_search"], row["rights_signals"][0]
        (False, True, 'header Content-Usage: train-ai=n -> train=no')
    """

    url_field: str = "url"
    headers_field: str = "http_headers"
    html_field: str = "content"
    robots_field: str = "robots"
    tdmrep_field: str = "tdmrep"
    rsl_field: str = "rsl"
    file_field: str = "bytes"
    licence_field: str = "license"
    charset_field: str = "charset"
    mime_type_field: str = "mime_type"
    robots_path: str | list[str] | None = None
    storage_options: dict[str, Any] | None = None
    agent: str = "dcurate"
    train_tags: Sequence[str] = ("noai", "noml")
    prefix: str = "rights_"
    name: str = "find_rights"
    _hosts: RobotsTable | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.train_tags, str) or (self.train_tags and not is_names(list(self.train_tags))):
            raise PipelineError(f"{self.name}: train_tags={self.train_tags!r} must be a list of text")
        if not isinstance(self.agent, str) or not self.agent or self.agent != self.agent.partition("/")[0].strip():
            raise PipelineError(
                f"{self.name}: agent={self.agent!r} must be the name of a crawler without its version, such as 'CCBot'"
            )
        if self.robots_path is not None and not is_names(
            [self.robots_path] if isinstance(self.robots_path, str) else self.robots_path
        ):
            raise PipelineError(f"{self.name}: robots_path={self.robots_path!r} must be a path, or a list of paths")

    def setup(self, worker_metadata: WorkerMetadata | None = None) -> None:
        if self.robots_path is not None:
            self._hosts = robots_table(self.robots_path, self.storage_options)

    def teardown(self) -> None:
        self._hosts = None

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows."""
        settings = super().settings()
        for name in ("storage_options", "_hosts"):
            settings.pop(name, None)
        if self.robots_path is not None:
            settings["robots_path"] = robots_version(self.robots_path, self.storage_options)
        return settings

    def kernels(self) -> Sequence[Kernels]:
        return (KERNELS,)

    def inputs(self) -> Spec:
        return ["data"], []

    def optional_inputs(self) -> Sequence[str]:
        return [self.url_field, *self._said_in(), REF, self.charset_field, self.mime_type_field]

    def outputs(self) -> Spec:
        return ["data"], [f"{self.prefix}{name}" for name in ("train", "search", "licences", "conflict", "signals")]

    def process(self, task: DocumentBatch) -> DocumentBatch:
        table = DocumentBatch.given(task).to_arrow()
        if table.num_rows and self.robots_path is None and not {*self._said_in(), REF} & set(table.column_names):
            raise DataError(
                f"{self.name}: the rows have none of the columns {listed(self._said_in())}; name the one that they "
                "have with html_field=, or read it with WarcReader(fields=[..., 'http_headers', 'content'])"
            )
        tags = frozenset(tag.lower() for tag in self.train_tags)
        referred, faults = self._referred(table)
        sources = (source._replace(referred=referred.get(row)) for row, source in enumerate(self._rows(table)))
        signals = [signals_of(source, self.agent, tags) for source in sources]
        verdicts = [verdict_of(row.signals) for row in signals]
        licences = [[encodable(text) for text in dict.fromkeys(row.licences)][:MOST] for row in signals]
        train, search, conflict = ([getattr(verdict, name) for verdict in verdicts] for name in RightsVerdict._fields)
        table = with_columns(table, {f"{self.prefix}train": ("bool", train), f"{self.prefix}search": ("bool", search)})
        table = with_texts_each(table, f"{self.prefix}licences", licences)
        table = with_columns(table, {f"{self.prefix}conflict": ("bool", conflict)})
        table = with_texts_each(table, f"{self.prefix}signals", [shown(row.signals) for row in signals])
        counted = [
            row for number, row in enumerate(zip(signals, licences, verdicts, strict=True)) if number not in faults
        ]
        made = replace(task, data=table)
        return replace(quarantined(made, faults, self.name) if faults else made, found=_counts(counted))

    def _referred(self, table: Any) -> tuple[dict[int, RightsSignals], dict[int, MediaFault]]:
        """What the files say that rows refer to, by row, and the rows whose files cannot be fetched."""
        if REF not in table.column_names:
            return {}, {}
        urls = _texts(table, self.url_field)
        refs, here = row_refs(table), has_bytes(table)
        first = recordings_of(refs, here)
        chosen = [row for row in sorted(set(first)) if refs[row] is not None and not here[row]]
        signals: dict[int, RightsSignals] = {}
        faults: dict[int, MediaFault] = {}
        for row, data in zip(chosen, contents(table, chosen, self.storage_options), strict=True):
            if isinstance(data, MediaFault):
                faults[row] = data
            else:
                signals[row] = of_file(data, urls[row] or "")
        return (
            {row: signals[source] for row, source in enumerate(first) if source in signals},
            {row: faults[source] for row, source in enumerate(first) if source in faults},
        )

    def _rows(self, table: Any) -> Iterator[_Sources]:
        urls = _texts(table, self.url_field)
        robots = _texts(table, self.robots_field)
        if self.robots_path is not None and self.robots_field not in table.column_names:
            self._hosts = hosts = self._hosts or robots_table(self.robots_path, self.storage_options)
            robots = [hosts.get(host_and_path(url or "")[0]) for url in urls]
        columns = (
            urls,
            _texts(table, self.headers_field),
            optional_values(table, self.html_field),
            _texts(table, self.charset_field),
            _texts(table, self.mime_type_field),
            robots,
            _texts(table, self.tdmrep_field),
            _texts(table, self.rsl_field),
            optional_values(table, self.file_field),
            optional_values(table, self.licence_field),
            [None] * table.num_rows,
        )
        return (_Sources(*row) for row in zip(*columns, strict=True))

    def _said_in(self) -> list[str]:
        documents = [self.robots_field, self.tdmrep_field, self.rsl_field]
        return [self.headers_field, self.html_field, *documents, self.file_field, self.licence_field]


def _texts(table: Any, name: str) -> list[str | None]:
    """The texts of a column; None for each row if the column is missing."""
    if name not in table.column_names:
        return [None] * table.num_rows
    return list(column_of(table, name, text=True).to_pylist())


def signals_of(row: _Sources, agent: str, train_tags: frozenset[str]) -> RightsSignals:
    """Return all that is said in the columns of a row."""
    url = row.url or ""
    parts = [of_headers(row.headers, url, agent, train_tags)] if row.headers else []
    is_page = row.mime_type is None or row.mime_type.partition(";")[0].strip().lower() in _PAGES
    if row.page and is_page:
        parts.append(of_page(rights_tags(row.page, row.charset, agent), url, agent, train_tags))
    parts += [of_file(data, url) for data in (None if is_page else row.page, row.file) if isinstance(data, bytes)]
    parts += [row.referred] if row.referred is not None else []
    signals = [signal for part in parts for signal in part.signals]
    if row.robots or row.tdmrep or row.rsl:
        host, path = host_and_path(url)
        if host:
            signals += of_robots(row.robots, path, agent) if row.robots else []
            signals += of_site(row.tdmrep or "", row.rsl or "", url, path)
    licences = [licence for part in parts for licence in part.licences]
    if row.licence is not None:
        stated, unknown = stated_licences(row.licence)
        licences += [licence[:LONGEST_ADDRESS] for licence in stated]
        signals += [RightsSignal("row licence", f"{text[:LONGEST]}{UNKNOWN}") for text in unknown]
    return RightsSignals(signals, licences)


def shown(signals: Sequence[RightsSignal]) -> list[str]:
    """Return signals as texts, each once: those with an effect first if there are more than can be shown."""
    texts = list(dict.fromkeys(map(str, signals)))
    if len(texts) > MOST:
        effects = list(dict.fromkeys(str(signal) for signal in signals if signal.use))
        kept = list(dict.fromkeys([*effects, *texts]))[: MOST - 1]
        texts = [*kept, f"{len(texts) - len(kept)} more"]
    return [encodable(text) for text in texts]


def licence_kind(licence: str) -> str:
    """The name under which a report counts a licence: few, for any number of addresses."""
    names = licence.split(" OR ")
    return f"licence {licence}" if len(names) <= 2 and all(map(is_known, names)) else "licence of another kind"


def _counts(rows: Iterable[tuple[RightsSignals, list[str], RightsVerdict]]) -> Counter[str]:
    """Numbers of rows by places of signals, licences and verdicts."""
    counts: Counter[str] = Counter()
    for row, names, verdict in rows:
        counts.update({signal.place for signal in row.signals})
        counts.update({licence_kind(name) for name in names})
        for use in ("train", "search"):
            if (allowed := getattr(verdict, use)) is not None:
                counts[f"{use}={'yes' if allowed else 'no'}"] += 1
        counts["conflict"] += verdict.conflict
    return +counts
