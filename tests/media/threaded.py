"""A function whose module starts a thread, as some decoders' libraries do."""

import os
import threading
import time

_THREAD = threading.Thread(target=time.sleep, args=(600,), daemon=True)
_THREAD.start()


def decode(data, options):
    """Return how many threads of the module there are."""
    if data == b"exit!":
        os._exit(3)
    return {"threads": int(_THREAD.is_alive())}
