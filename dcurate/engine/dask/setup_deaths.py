"""Deaths of workers that set an operator up."""

from __future__ import annotations

import time

#: After this many deaths in a row of a host's workers that set an operator up, which has no slot anywhere, the run
#: ends. Workers that die within some seconds of each other have died of one cause.
MAX_SETUP_DEATHS, ONE_DEATH_S = 4, 0.5


class SetupDeaths:
    """Counts deaths in a row of workers that set an operator up, by host and operator."""

    def __init__(self) -> None:
        self._deaths: dict[tuple[str, str], tuple[int, float]] = {}

    def forget(self, host: str, operator: str) -> None:
        """Start again from zero: a worker of the host has set the operator up."""
        self._deaths.pop((host, operator), None)

    def count(self, host: str, operator: str, works: bool) -> str:
        """Count a death; return the sentence that the run ends with, or "" if it goes on.

        Args:
            host: host of the worker.
            operator: operator that the worker was setting up.
            works: whether the operator has a slot anywhere.

        Examples:
            >>> SetupDeaths().count("a", "tag", works=False)
            ''
        """
        count, last = self._deaths.get((host, operator), (0, -ONE_DEATH_S))
        now = time.monotonic()
        if now - last < ONE_DEATH_S:
            return ""
        count += 1
        self._deaths[host, operator] = (count, now)
        if works or count < MAX_SETUP_DEATHS:
            return ""
        return (
            f"operator {operator!r}: worker processes end while they set it up, {count} times in a row on host {host}; "
            "find what ends them, such as a crash in setup() or too little memory, and start the run again with "
            "resume=True to go on"
        )
