"""Numbers, counts and durations as text."""

from __future__ import annotations

from rich.filesize import decimal

from dcurate.core.report import RunReport


def seconds_text(seconds: float) -> str:
    """A duration as a person says it.

    Examples:
        >>> [seconds_text(s) for s in (0.0042, 0.25, 3.21, 59.97, 65, 3700)]
        ['4 ms', '250 ms', '3.2 s', '1 min 00 s', '1 min 05 s', '1 h 01 min']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def many(number: int, noun: str) -> str:
    """A number of things.

    Examples:
        >>> many(1, "file"), many(1200, "file")
        ('1 file', '1,200 files')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def used_text(report: RunReport) -> str:
    """What the stages of a run used, in words, and what it cost if prices were given; empty if nothing was measured.

    Examples:
        >>> from dcurate.events import StageStats
        >>> stages = (StageStats("ask", bytes_in=2000, cpu_s=1800.0, gpu_s=3600.0),)
        >>> used_text(RunReport("7f3a", "demo", "inline", 0.0, 2.0, stages, cpu_hour_price=0.04, gpu_hour_price=2.0))
        '30 min 00 s of CPU, 1 h 00 min of GPU, 2.0 kB read, 0 bytes written, cost 2.02'
    """
    if not report.cpu_s and not report.gpu_s:
        return ""
    gpu = [f"{seconds_text(report.gpu_s)} of GPU"] if report.gpu_s else []
    cost = [f"cost {report.cost:,.4g}"] if report.cost is not None else []
    nbytes = [f"{decimal(report.bytes_read)} read", f"{decimal(report.bytes_written)} written"]
    return ", ".join([f"{seconds_text(report.cpu_s)} of CPU", *gpu, *nbytes, *cost])


def number_text(value: float | None) -> str:
    """A number for a table: whole ones with their thousands apart, others to three digits, small ones to two.

    Examples:
        >>> [number_text(value) for value in (1234567.0, 0.12345, 0.000567, 3.0, None)]
        ['1,234,567', '0.123', '0.00057', '3', '']
    """
    if value is None:
        return ""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2g}"
