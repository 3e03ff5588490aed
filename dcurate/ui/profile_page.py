"""A corpus profile as a page: one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from rich.filesize import decimal

from dcurate.core.profile import Bar, Distribution, Example, FilterProfile, ProfileSummary
from dcurate.fs.atomic import atomic_write
from dcurate.runs.text import many, number_text, seconds_text
from dcurate.ui.profile_table import duplicates_text, share, suggestion_text
from dcurate.ui.svg import WIDE, histogram

_SHOWN_VALUES = 12
_LENGTHS = ("words", "characters", "tokens", "lines")


def write_page(profile: ProfileSummary, path: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    content = page(profile)
    with atomic_write(path, durable=False) as file:
        file.write(content.encode())


def page(profile: ProfileSummary) -> str:
    """The page as text."""
    lengths = {name: profile.distributions[name] for name in _LENGTHS if name in profile.distributions}
    parts = [
        _header(profile),
        _section("How long documents are", _lengths(lengths), _estimate(profile)),
        *(_counts(column, values, profile.documents) for column, values in profile.counts.items()),
        *_filters(profile),
    ]
    style = files("dcurate.ui").joinpath("profile.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Profile of {escape(profile.source)}</title>\n<style>{style}</style></head>\n"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _section(title: str, content: str, note: str = "") -> str:
    intro = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{intro}{content}</section>"


def _header(profile: ProfileSummary) -> str:
    totals = profile.distributions
    tokens = totals["tokens"].total if "tokens" in totals else 0
    words = totals["words"].total if "words" in totals else 0
    about = "about " if profile.tokens_estimated else ""
    unread = f", {many(profile.faulty, 'row')} unreadable" if profile.faulty else ""
    figures = [
        ("documents", f"{profile.documents:,}", f"{profile.empty:,} empty{unread}"),
        ("text", decimal(profile.nbytes), f"{words or 0:,} words"),
        ("tokens", f"{about}{_short(tokens or 0)}", "bytes / 4" if about else "counted"),
        ("repeat a text", duplicates_text(profile), "exact" if profile.duplicates_exact else "from a sample"),
        ("pass all filters", share(profile.kept, profile.documents) or "–", f"{profile.kept:,} documents"),
    ]
    cards = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(more)}</small></div>'
        for name, value, more in figures
    )
    return (
        f'<header><p class="kind">corpus profile</p><h1>{escape(profile.source)}</h1>'
        f'<div class="cards">{cards}</div><p class="note">One pass, {seconds_text(profile.seconds)}.</p></header>'
    )


def _short(number: int) -> str:
    """A large number in three digits.

    Examples:
        >>> [_short(number) for number in (950, 1234, 56_789_000, 1_200_000_000)]
        ['950', '1.23 k', '56.8 M', '1.2 G']
    """
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _estimate(profile: ProfileSummary) -> str:
    return "Tokens are estimated as a quarter of the bytes." if profile.tokens_estimated else ""


def _lengths(lengths: Mapping[str, Distribution]) -> str:
    cards = (
        f"<article><h3>{escape(name)}</h3>{_drawn(each)}{_quantiles(each)}</article>" for name, each in lengths.items()
    )
    return f'<div class="grid">{"".join(cards)}</div>'


def _drawn(each: Distribution, marks: Sequence[tuple[float, str]] = (), *, log: bool = False) -> str:
    bars = each.histogram
    return histogram(bars, marks, whole=each.whole, across=_is_geometric(bars), log=log, width=WIDE)


def _is_geometric(bars: Sequence[Bar]) -> bool:
    """Whether each bar is wider than the one before it."""
    if len(bars) < 4:
        return False
    return bars[-1].high - bars[-1].low > 2 * (bars[1].high - bars[1].low)


def _quantiles(each: Distribution) -> str:
    figures = [("min", each.least), *((f"p{100 * level:g}", value) for level, value in each.quantiles.items())]
    figures = [*figures, ("max", each.most)]
    head = "".join(f"<th>{name}</th>" for name, _ in figures)
    row = "".join(f"<td>{number_text(value)}</td>" for _, value in figures)
    return f'<table class="quantiles"><tr>{head}</tr><tr>{row}</tr></table>'


def _counts(column: str, values: Mapping[str, int] | None, documents: int) -> str:
    if values is None:
        return _section(column, '<p class="note">More than 10,000 different values.</p>')
    shown = list(values.items())[:_SHOWN_VALUES]
    rest = documents - sum(number for _, number in shown)
    widest = max([number for _, number in shown] + [rest], default=1)
    rows = "".join(_bar(value, number, documents, widest) for value, number in shown)
    more = f"{len(values) - len(shown):,} more" if len(values) > len(shown) else ""
    last = _bar(more, rest, documents, widest, "rest") if more else ""
    return _section(column, f'<table class="counts">{rows}{last}</table>')


def _bar(name: str, number: int, documents: int, widest: int, kind: str = "") -> str:
    width = 100 * number / widest if widest else 0
    return (
        f'<tr class="{kind}"><th>{escape(name)}</th><td class="bar"><i style="width:{width:.2f}%"></i></td>'
        f"<td>{number:,}</td><td>{share(number, documents)}</td></tr>"
    )


def _filters(profile: ProfileSummary) -> Iterable[str]:
    if not profile.filters:
        return
    head = "".join(f"<th>{name}</th>" for name in ("filter", "fail", "", "", "first", "only", "try instead"))
    widest = max(each.drops for each in profile.filters) or 1
    rows = "".join(_row(number, each, profile, widest) for number, each in enumerate(profile.filters))
    note = (
        "<b>fail</b>: documents that the filter drops by itself. <b>first</b>: those that none of the filters above it "
        "drops. <b>only</b>: those that no other filter drops, so what leaving it out would bring back. A threshold is "
        f"suggested where a filter drops more than {100 * profile.most_dropped:g} % of the documents on one side: the "
        "strictest that drops at most that share."
    )
    yield _section("What filters drop", f'<table class="filters"><tr>{head}</tr>{rows}</table>', note)
    legend = (
        '<span class="kept"></span> kept <span class="dropped"></span> dropped by the filter; '
        "documents on a logarithmic scale"
    )
    cards = "".join(_card(number, each, profile) for number, each in enumerate(profile.filters))
    yield _section("Scores", f'<div class="grid">{cards}</div>', legend)


def _row(number: int, each: FilterProfile, profile: ProfileSummary, widest: int) -> str:
    return (
        f'<tr><th><a href="#f{number}">{escape(each.name)}</a></th><td>{each.drops:,}</td>'
        f"<td>{share(each.drops, profile.documents)}</td>"
        f'<td class="bar"><i class="drop" style="width:{100 * each.drops / widest:.2f}%"></i></td>'
        f'<td>{each.first:,}</td><td>{each.only:,}</td><td class="try">{escape(suggestion_text(each))}</td></tr>'
    )


def _card(number: int, each: FilterProfile, profile: ProfileSummary) -> str:
    shown = list(each.labels.items())[:_SHOWN_VALUES]
    widest = max(each.labels.values(), default=1)
    marks = [(cut.suggested.value, cut.suggested.keeps) for cut in each.cuts if cut.suggested is not None]
    labels = "".join(_bar(label, count, profile.documents, widest) for label, count in shown)
    parts = [
        _drawn(each.scores, marks, log=True),
        f'<table class="counts">{labels}</table>' if labels else "",
        _quantiles(each.scores) if each.scores.histogram else "",
        _thresholds(each, profile.documents),
        _examples(each.examples),
    ]
    dropped = f"drops {share(each.drops, profile.documents) or '0 %'}"
    return f'<article id="f{number}"><h3>{escape(each.name)} <em>{dropped}</em></h3>{"".join(parts)}</article>'


def _thresholds(each: FilterProfile, documents: int) -> str:
    rows = [
        f'<li class="{"pick" if choice == cut.suggested else ""}"><code>{escape(choice.keeps)}</code> drops '
        f"{share(choice.dropped, documents)}</li>"
        for cut in each.cuts
        for choice in cut.choices
    ]
    return f'<ul class="thresholds">{"".join(rows)}</ul>' if rows else ""


def _examples(examples: Iterable[Example]) -> str:
    rows = "".join(
        f"<dt><code>{escape(each.id)}</code> scores {escape(each.score)}</dt><dd>{escape(each.excerpt)}</dd>"
        for each in examples
    )
    return f"<details><summary>examples of what it drops</summary><dl>{rows}</dl></details>" if rows else ""
