"""Section 2.3: the domain names from which most content comes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from io import TextIOWrapper
from typing import Any, NamedTuple

from dcurate.fs.atomic import atomic_write
from dcurate.fs.errors import storage_errors
from dcurate.io.corpus_counts import MODALITIES, CorpusCounts
from dcurate.io.group_counts import Count, GroupCounts
from dcurate.runs.summary.fields import SummaryField
from dcurate.runs.summary.sizes import columns_of

#: Domains that are shown; the file of domains has all that the template asks for.
SHOWN = 1000
#: The most domains that a small or medium-sized enterprise lists.
MOST_OF_SME = 1000
_HEADS = ("modality", "domain", "unicode", "documents", "bytes")


class DomainRule(NamedTuple):
    """Which domains are listed: of each modality those with the most bytes.

    Args:
        sme: whether the provider is a small or medium-sized enterprise.
        private: whether suffixes of the private section of the public suffix list count, such as ``github.io``.
        version: the version of the list, for the words.
    """

    sme: bool = False
    private: bool = False
    version: str = ""

    def listed(self, domains: int) -> int:
        """Return how many of the domains are listed.

        Examples:
            >>> DomainRule().listed(101), DomainRule(sme=True).listed(101), DomainRule(sme=True).listed(10**6)
            (11, 6, 1000)
        """
        return min(-(-domains // 20), MOST_OF_SME) if self.sme else -(-domains // 10)

    @property
    def words(self) -> str:
        """The rule in words."""
        part = f"the top 5 % or {MOST_OF_SME:,}, whichever is lower," if self.sme else "the top 10 %"
        suffixes = "all suffixes" if self.private else "the suffixes of ICANN"
        return f"{part} of registered domains by {suffixes} of the public suffix list (publicsuffixlist {self.version})"


def domain_fields(
    total: CorpusCounts, groups: GroupCounts, rule: DomainRule, path: str | None = None
) -> Iterator[SummaryField]:
    """Yield the domains with the most content, and how many documents have none.

    Args:
        total: the counts.
        groups: counts by domain.
        rule: which domains are listed.
        path: file for all that are listed, as CSV.
    """
    column = columns_of(total, "url")
    if not column:
        how = "a column of URLs is missing"
        yield SummaryField("domains", "Most relevant domain names", how=how, blank=f"cannot be counted: {how}")
        return
    shown: list[dict[str, Any]] = []
    numbers = {modality: groups.names(f"domain:{modality}") for modality in MODALITIES}
    with ExitStack() as stack:
        write = None if path is None else _writer(stack, path)
        for modality, domains in numbers.items():
            _list(groups, modality, rule.listed(domains), shown, write)
    how = (
        f"counted in {column}: {rule.words}, of each modality by bytes of content ({_sizes(total)}), ties by documents"
    )
    how += f" and then by name: {'; '.join(_listed(groups, rule, numbers)) or 'none'}"
    if any(rule.listed(domains) > SHOWN for domains in numbers.values()):
        how += f"; the first {SHOWN:,} of each are shown"
    yield SummaryField("domains", "Most relevant domain names", shown, how, estimate=not total.exact and bool(shown))
    there = [modality for modality, domains in numbers.items() if domains]
    how_there = f"those of documents of domain names, {column}"
    yield SummaryField("crawled_modalities", "Modalities of the crawled content", there or None, how_there)
    how = f"counted in {column}"
    in_all = groups.names(*(f"domain:{modality}" for modality in numbers))
    yield SummaryField("domains_in_all", "Domain names in all", in_all, how)
    rows = sum(groups.total(f"domain:{modality}").rows for modality in numbers)
    yield SummaryField("documents_of_domains", "Documents of domain names", rows, how)
    yield SummaryField(
        "documents_of_hosts",
        "Documents of hosts without a registered domain",
        groups.total("host").rows,
        f"IP addresses, names without a dot and public suffixes, {how}",
    )
    why = f"neither an http, https nor ftp address that can be read, {how}"
    yield SummaryField("invalid_urls", "Documents with an invalid URL", total.invalid_urls, why)
    without = total.rows - total.url_rows - total.invalid_urls
    yield SummaryField("documents_without_url", "Documents without a URL", without, how)


def _listed(groups: GroupCounts, rule: DomainRule, numbers: Mapping[str, int]) -> Iterator[str]:
    """How many domains of each modality are listed."""
    for modality, domains in numbers.items():
        if domains:
            listed = rule.listed(domains)
            tie = ", the last one tied with the next" if _tied(groups, modality, listed) else ""
            yield f"{listed:,} of {domains:,} of {modality}{tie}"


def _list(groups: GroupCounts, modality: str, listed: int, shown: list[dict[str, Any]], write: Any) -> None:
    """List the largest domains of a modality; the first `SHOWN` are to be shown."""
    for number, count in enumerate(groups.largest(f"domain:{modality}", listed), start=1):
        row = _row(modality, count)
        if number <= SHOWN:
            shown.append(row)
        if write is not None:
            write(row)


def _row(modality: str, count: Count) -> dict[str, Any]:
    row = {"modality": modality, "domain": count.name, "documents": count.rows, "bytes": count.nbytes}
    name = _unicode(count.name)
    return row if name == count.name else {**row, "unicode": name}


def _unicode(name: str) -> str:
    try:
        return name.encode().decode("idna")
    except UnicodeError:
        return name


def _tied(groups: GroupCounts, modality: str, listed: int) -> bool:
    """Whether the last domain that is listed has as many bytes and documents as the next."""
    last: Count | None = None
    for number, count in enumerate(groups.largest(f"domain:{modality}", listed + 1), start=1):
        if number > listed:
            return last is not None and last[1:] == count[1:]
        last = count
    return False


def _writer(stack: ExitStack, path: str) -> Any:
    stack.enter_context(storage_errors("write", path))
    file = stack.enter_context(atomic_write(path, durable=False))
    text = TextIOWrapper(file, "utf-8", newline="", write_through=True)
    stack.callback(text.detach)
    writer = csv.DictWriter(text, _HEADS)
    writer.writeheader()
    return writer.writerow


def _sizes(total: CorpusCounts) -> str:
    column = columns_of(total, "bytes")
    if column and total.sizes:
        return column
    text = columns_of(total, "text")
    if not text:
        return "of which nothing is known, so by documents"
    if total.exact:
        return f"UTF-8 bytes of {text}"
    weights = columns_of(total, "tokens")
    how = f"in proportion to {weights}" if weights else "evenly"
    return f"estimate: bytes of row groups of {text}, divided among their rows {how}"
