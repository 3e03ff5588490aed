"""The S3 server of `tests.io`."""

from tests.io.conftest import bucket, s3_server

__all__ = ["bucket", "s3_server"]
