"""`training_summary`: the public summary of training content of corpora, as far as they and their records say it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

from dcurate.errors import PipelineError, nearest
from dcurate.io.corpus_columns import ROLES
from dcurate.io.corpus_counts import CorpusCounter
from dcurate.io.group_counts import GroupCounts
from dcurate.io.hosts import Domains
from dcurate.media.names import KINDS
from dcurate.redaction import without_secrets
from dcurate.runs.load import RecordedRun
from dcurate.runs.summary.domains import DomainRule, domain_fields
from dcurate.runs.summary.evidence import SummedCorpus, check_chosen, corpus_at, count_removed, total_of
from dcurate.runs.summary.facts import checked_facts, read_facts
from dcurate.runs.summary.fields import REMOVED, TEMPLATE, SummaryField, SummarySection, sections_of
from dcurate.runs.summary.sections import (
    crawler_fields,
    illegal_fields,
    modalities_of,
    processing_fields,
    removed_fields,
    rights_fields,
    runs_of,
    source_fields,
    synthetic_fields,
)
from dcurate.runs.summary.sizes import date_fields, language_field, size_fields
from dcurate.runs.text import many

_ENDINGS = {kind: KINDS[kind] for kind in ("image", "audio", "video")}
#: Rows of a table, and characters of a value, on a terminal.
_ROWS, _CHARS = 5, 160


@dataclass(frozen=True)
class SummaryOptions:
    """How a summary is made.

    Args:
        sme: whether the provider is a small or medium-sized enterprise, which lists fewer domains.
        removed: whether the documents that runs removed and kept aside are counted, too.
        private_suffixes: whether names under suffixes such as ``github.io`` count as domains of their own.
        read_texts: whether the texts of Parquet files are read, for their exact sizes.
        columns: columns by what they say: ``url``, ``language``, ``tokens`` and so on; usual names by default.
        domains_path: a file for all domains that are listed, as CSV.

    Raises:
        PipelineError: ``columns`` has an unknown role.

    Examples:
        >>> SummaryOptions(columns={"link": "url"})
        Traceback (most recent call last):
        dcurate.errors.PipelineError: columns: unknown role 'link'; there are ...
    """

    sme: bool = False
    removed: bool = False
    private_suffixes: bool = False
    read_texts: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    domains_path: str | None = None

    def __post_init__(self) -> None:
        for role in self.columns:
            if role not in ROLES:
                raise PipelineError(f"columns: unknown role {role!r}{nearest(role, ROLES)}")


@dataclass(frozen=True)
class TrainingSummary(JupyterMixin):
    """The fields of the public summary of training content.

    Attributes:
        sections: sections of the template, and ``"removed"`` where that was asked for.
        outputs: addresses of what was summed up.
        bytes_read: bytes of their files that were read.
        columns: of each output, what each column holds.
        runs: the records of the runs that wrote them.

    Examples:
        >>> summary = TrainingSummary((SummarySection("1.1", "Provider", ()),), ("out",))
        >>> summary.to_dict()["sections"]
        {'1.1': {'title': 'Provider', 'fields': {}}}
    """

    sections: tuple[SummarySection, ...]
    outputs: tuple[str, ...]
    bytes_read: int = 0
    columns: tuple[Mapping[str, str], ...] = ()
    runs: tuple[RecordedRun, ...] = ()

    def field(self, name: str) -> SummaryField | None:
        """Return a field by its name; None if it is missing."""
        fields = (field for section in self.sections for field in section.fields)
        return next((field for field in fields if field.name == name), None)

    def stated(self, name: str) -> Any:
        """Return what the provider says of a field; None if nothing."""
        named = self.field(name)
        return None if named is None else named.stated

    @property
    def blanks(self) -> list[SummaryField]:
        """The fields that the provider is to fill in."""
        return [field for section in self.sections for field in section.fields if field.blank]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold: sections by number, in each the fields by name."""
        return {
            "template": TEMPLATE,
            "outputs": [without_secrets(output).rstrip("/").rpartition("/")[2] for output in self.outputs],
            "bytes_read": self.bytes_read,
            "sections": {section.number: section.to_dict() for section in self.sections},
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for section in self.sections:
            table = Table.grid(padding=(0, 2))
            table.add_column(ratio=1)
            table.add_column(ratio=3, overflow="fold")
            counted = [field for field in section.fields if not field.blank]
            for shown in counted:
                table.add_row(Text(shown.title), _brief(shown))
                if shown.how:
                    table.add_row("", Text(shown.how, style="dim"))
            yield Text(f"{section.number}  {section.title}", "bold")
            if counted:
                yield table
            if blank := len(section.fields) - len(counted):
                yield Text(f"to be filled in by the provider: {many(blank, 'field')}", "yellow")
            yield Text()


def _brief(field: SummaryField) -> RenderableType:
    """A field in a few lines: what the provider says, then what was counted."""
    values = [value for value in (field.stated, field.value) if value is not None and value != []]
    return Group(*map(_shown, values)) if values else Text("none")


def _shown(value: Any) -> RenderableType:
    """A value as text; the first rows of a table under the names of its columns."""
    if not (isinstance(value, list) and isinstance(value[0], Mapping)):
        return Text(_cut(text_of(value)))
    heads, rows = table_of(value[:_ROWS])
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        is_number = all(isinstance(row.get(head, 0), int | float) for row in value[:_ROWS])
        table.add_column(Text(head), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cut(cell)) for cell in row))
    more = len(value) - len(rows)
    return Group(table, Text(f"and {more:,} more")) if more else table


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"


def text_of(value: Any) -> str:
    """Return a value in words; of a table the first rows.

    Examples:
        >>> text_of(1234567), text_of(True), text_of(["a", "b"]), text_of([{"language": "en", "documents": 3}])
        ('1,234,567', 'yes', 'a; b', 'en, 3')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list):
        more = f"; and {len(value) - _ROWS:,} more" if len(value) > _ROWS else ""
        return "; ".join(map(text_of, value[:_ROWS])) + more
    if isinstance(value, Mapping):
        return ", ".join(text_of(cell) for cell in value.values() if cell not in ("", None))
    return str(value)


def table_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of a table as text.

    Examples:
        >>> table_of([{"language": "en", "documents": 3}, {"language": "de", "share": 0.5}])
        (['language', 'documents', 'share'], [['en', '3', ''], ['de', '', '0.5']])
    """
    heads = list(dict.fromkeys(head for row in rows for head in row))
    return heads, [[text_of(row[head]) if head in row else "" for head in heads] for row in rows]


def training_summary(
    outputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    facts: str | Mapping[str, Any] | None = None,
    options: SummaryOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> TrainingSummary:
    """Fill in the public summary of training content that Article 53(1)(d) of the AI Act asks for, as far as possible.

    Numbers are counted in columns of the outputs, or taken from the records of their runs; each says how it was
    obtained, and an estimate says so. Texts are not read: of Parquet only other columns and footers are, while of JSON
    Lines each line is parsed. What cannot be counted is a named blank, which ``facts`` fill. The memory does not grow
    with the number of documents or domains.

    Args:
        outputs: the output directories of runs: files of Parquet and JSON Lines, tar archives of media, folders of
            tokens. They are added up, so do not name documents and their tokens both.
        facts: what the provider states, as a mapping or a YAML file; see the guide for its keys.
        options: how the summary is made.
        storage_options: for fsspec.

    Raises:
        PipelineError: no outputs, unknown facts, or facts of other types.
        DataError: an output holds nothing to count, or cannot be read; or a column that was chosen is in no file.
        ResourceError: a library of the extra ``summary`` is not installed.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> from dcurate import DocumentBatch, InlineExecutor, Pipeline, ParquetWriter
        >>> rows = pd.DataFrame({"url": ["https://a.example.org/1", "https://example.org/2"], "text": ["one", "two"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> pipeline = Pipeline("demo", stages=[ParquetWriter(folder.name)])
        >>> run = pipeline.run(InlineExecutor(), [DocumentBatch(data=rows)], observers=[])
        >>> summary = training_summary(folder.name, facts={"provider_name": "ACME"})
        >>> summary.field("text_documents").value, summary.field("domains").value[0]["domain"]
        (2, 'example.org')
        >>> folder.cleanup()
    """
    addresses = [os.fspath(output) for output in ([outputs] if isinstance(outputs, str | os.PathLike) else outputs)]
    if not addresses:
        raise PipelineError("outputs: name at least one output directory")
    if len(set(addresses)) < len(addresses):
        raise PipelineError("outputs: an output is named twice, and would be counted twice; name each once")
    options = options or SummaryOptions()
    stated = checked_facts(read_facts(facts) if isinstance(facts, str) else facts or {})
    domains = Domains(private=options.private_suffixes)
    with GroupCounts() as groups, GroupCounts() as removed_groups:
        counter = CorpusCounter(groups, domains, options.columns, _ENDINGS, options.read_texts)
        corpora = [corpus_at(address, counter, storage_options or {}) for address in addresses]
        check_chosen(corpora, options.columns)
        if options.removed:
            aside = CorpusCounter(removed_groups, domains, options.columns, _ENDINGS, options.read_texts)
            for corpus in {corpus.run.report.run: corpus for corpus in corpora if corpus.run is not None}.values():
                count_removed(corpus, aside, storage_options or {})
        rule = DomainRule(options.sme, options.private_suffixes, domains.version)
        counted = _counted(corpora, groups, rule, options.domains_path)
        if options.removed:
            counted[REMOVED] = list(_removed(corpora, removed_groups, rule))
    return TrainingSummary(
        sections_of(counted, stated),
        tuple(corpus.address for corpus in corpora),
        sum(corpus.counts.bytes_read for corpus in corpora),
        tuple(corpus.counts.types for corpus in corpora),
        tuple(runs_of(corpora)),
    )


def _counted(
    corpora: Sequence[SummedCorpus], groups: GroupCounts, rule: DomainRule, domains_path: str | None
) -> dict[str, list[SummaryField]]:
    """The fields that were counted, by section."""
    total = total_of([corpus.counts for corpus in corpora])
    latest, period = date_fields(total)
    modalities = SummaryField(
        "modalities", "Modalities", modalities_of(total, corpora), "by columns, MIME types and names of files"
    )
    return {
        "1.3": [modalities, *size_fields(total, corpora), latest, language_field(total, groups)],
        "2.1": list(source_fields(total, groups, corpora)),
        "2.3": [*crawler_fields(corpora), period, *domain_fields(total, groups, rule, domains_path)],
        "2.5": list(synthetic_fields(total, corpora)),
        "3.1": list(rights_fields(total, groups, corpora)),
        "3.2": list(illegal_fields(corpora)),
        "3.3": list(processing_fields(corpora)),
    }


def _removed(corpora: Sequence[SummedCorpus], groups: GroupCounts, rule: DomainRule) -> Iterator[SummaryField]:
    parts = [corpus.removed for corpus in corpora if corpus.removed is not None]
    removed = total_of(parts) if parts else None
    yield from removed_fields(removed, groups)
    if removed is not None:
        for counted in domain_fields(removed, groups, rule):
            if counted.name != "crawled_modalities":
                yield replace(counted, name=f"removed_{counted.name}")
