"""What is wrong with a file of media: the names under which stages know the faults of `dcurate.isolate`."""

from dcurate.isolate.errors import MediaError, MediaFault

__all__ = ["MediaError", "MediaFault"]
