"""Call the board of jobs of a scheduler, by a connection that lasts for one call."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Security
from distributed.comm import connect
from distributed.core import send_recv

from dcurate.cluster.probe import check_answers, shown
from dcurate.errors import PipelineError, RunError

#: The name of the remote call that the board serves.
CALL = "dcurate_jobs"
#: Seconds that a call may take, beside the time that it waits at the board; and one of a person.
CALL_S, PERSON_S = 10.0, 60.0


class BoardError(Exception):
    """The board cannot be reached, or there is none."""


class SlowBoardError(BoardError):
    """The board gave no answer in time."""


def ask_board(
    address: str, verb: str, /, *, call_s: float = CALL_S, security: Security | None = None, **arguments: Any
) -> dict[str, Any]:
    """Call the board of jobs.

    Args:
        address: address of the scheduler.
        verb: name of the call.
        call_s: longest duration of the call, in seconds, beside the ``wait_s`` of its arguments.
        security: certificates; by default those of Dask's configuration.
        arguments: plain values.

    Raises:
        PipelineError: the board refuses.
        SlowBoardError: it gives no answer in time.
        BoardError: nothing answers, or there is no board.
    """
    limit_s = call_s + arguments.get("wait_s", 0.0)
    try:
        certificates = Security() if security is None else security
        message = {"verb": verb, **arguments}
        call = _call(address, min(call_s, CALL_S), certificates, message)
        answer = asyncio.run(asyncio.wait_for(call, limit_s))
    except TimeoutError as error:
        raise SlowBoardError(f"no answer within {limit_s:g} s") from error
    except Exception as error:  # Dask raises what the scheduler raised, such as that it knows no such call
        raise BoardError(f"{type(error).__name__}: {error}") from error
    if "refused" in answer:
        raise PipelineError(answer["refused"])
    return answer


async def _call(address: str, seconds: float, security: Security, message: dict[str, Any]) -> dict[str, Any]:
    comm = await connect(address, timeout=seconds, **security.get_connection_args("client"))
    try:
        return dict(await send_recv(comm, op=CALL, **message))
    finally:
        await comm.close()


def ask_for_person(address: str, verb: str, /, *, security: Security | None = None, **arguments: Any) -> dict[str, Any]:
    """Call the board as `ask_board` does, with sentences for a person.

    Raises:
        RunError: no scheduler answers, or it has no board of jobs.
        PipelineError: the board refuses.
    """
    try:
        return ask_board(address, verb, call_s=PERSON_S, security=security, **arguments)
    except SlowBoardError as error:
        check_answers(address, CALL_S, security)
        raise RunError(f"the scheduler at {shown(address)!r} is too busy to answer ({error}); try again") from error
    except BoardError as error:
        check_answers(address, CALL_S, security)
        raise RunError(
            f"the scheduler at {shown(address)!r} has no jobs; submit one with: dcurate submit RECIPE --scheduler "
            f"{shown(address)}"
        ) from error
