"""Decoders that hang on one picture and die of another: in a worker, and in a sandbox."""

import os
import signal

from dcurate.images import ImageSignals
from dcurate.images.child import look_at


def hangs_and_dies(data, options):
    if data.endswith(b"HANG"):
        while True:
            pass
    if data.endswith(b"KILL"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return look_at(data, options)


class Deadly(ImageSignals):
    """`ImageSignals` with a decoder that ends its process."""

    def look(self, files):
        if any(file.data.endswith(b"KILL") for file in files):
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().look(files)
