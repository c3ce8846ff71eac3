"""The S3 server of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3_server import ObjectStore, run_server


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    with run_server() as server:
        yield server
