"""The options of commands that go to a scheduler: where it is, and certificates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

#: Seconds to wait for a scheduler, or for the file in which it leaves its address.
SCHEDULER_TIMEOUT = 10.0

_Command = Callable[..., None]
_OPTIONS = (
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        envvar="DASK_SCHEDULER_ADDRESS",
        help="The Dask scheduler, as in tcp://host:8786; by default that of DASK_SCHEDULER_ADDRESS.",
    ),
    click.option("--scheduler-file", metavar="FILE", help="The file that 'dask scheduler --scheduler-file' wrote."),
    click.option("--tls-ca-file", metavar="FILE", help="Certificates of the authorities, for tls:// addresses (PEM)."),
    click.option("--tls-cert", metavar="FILE", help="Certificate of this client (PEM)."),
    click.option("--tls-key", metavar="FILE", help="Key of this client (PEM), unless the file of --tls-cert has it."),
)


def scheduler_options(command: _Command) -> _Command:
    """Give a command the options of a scheduler; it gets ``scheduler``, an address or None."""

    @functools.wraps(command)
    def wrapped(
        *,
        scheduler: str | None,
        scheduler_file: str | None,
        tls_ca_file: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        **arguments: Any,
    ) -> None:
        if scheduler_file is not None:
            if scheduler and not is_of_environment("scheduler"):
                raise click.UsageError("--scheduler and --scheduler-file both name a scheduler; give one of them")
            from dcurate.cluster.address import read_scheduler_file  # noqa: PLC0415 - it imports Dask

            scheduler = read_scheduler_file(scheduler_file, SCHEDULER_TIMEOUT)
        if tls_ca_file or tls_cert or tls_key:
            _use_certificates(scheduler, tls_ca_file, tls_cert, tls_key)
        command(scheduler=scheduler, **arguments)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), wrapped)


def is_of_environment(option: str) -> bool:
    """Whether the value of an option of the present command is that of a variable of the environment."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.ENVIRONMENT


def _use_certificates(scheduler: str | None, ca_file: str | None, cert: str | None, key: str | None) -> None:
    """Have all connections of this process use certificates."""
    if ca_file is None or cert is None:
        raise click.UsageError(
            "certificates need both --tls-ca-file and --tls-cert, and --tls-key if the key is in a file of its own"
        )
    if not (scheduler or "").startswith(("tls://", "wss://")):
        raise click.UsageError(
            f"certificates are for a scheduler at tls://host:8786, and it is at {scheduler or 'no address'}; give its "
            "tls:// address, or leave out the certificates"
        )
    import dask  # noqa: PLC0415 - commands without a cluster need none of it

    from dcurate.cluster.address import tls_config  # noqa: PLC0415

    dask.config.set(tls_config(ca_file, cert, key))
