"""A function that does what decoders do to bad files."""

import ctypes
import os
import sys
import time

from dcurate.isolate.errors import MediaError

_KEPT: list[bytearray] = []


def decode(data, options):
    """Do as the data say, and return their length and themselves."""
    match bytes(data[:5]):
        case b"hang!" | b"waits":
            time.sleep(1.0 if data[:5] == b"waits" else 1000.0)
        case b"works":
            while True:
                pass
        case b"segv!":
            ctypes.string_at(0)
        case b"exit!":
            os._exit(3)
        case b"swell":
            _KEPT.extend(bytearray(10**8) for _ in range(1000))
        case b"bug!!":
            raise ZeroDivisionError("division by zero")
        case b"error":
            raise MediaError("encrypted", "it has a password")
        case b"print":
            sys.stdout.write("x" * 10**6)
            sys.stderr.write("x" * 10**6)
        case b"leak!":
            _KEPT.append(bytearray(b"x") * 40_000_000)
        case b"half!":
            return {"n": len(data), "text": "\ud800", "nan": float("nan")}
        case b"envir":
            return {"names": sorted(os.environ)}
    return {"n": len(data), **options}, [data, memoryview(data)[:1]]
