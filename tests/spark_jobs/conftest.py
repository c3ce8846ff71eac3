"""The S3 server of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3_server import ObjectStore, running


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    with running() as server:
        yield server
