"""The file that decides whether a driver or the next try of its task owns a submission.

A worker may die after the cluster has accepted a driver and before the worker knows its id. The next try cannot ask the
cluster, which does not know to which task a driver belongs. The one that comes first creates this file: the driver with
its id, or the next try to prevent the start of the driver.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

REPLACED = "replaced"
"""The owner of a submission whose driver must not start anymore."""
_SUFFIX = ".driver"
_CONTENT_SECONDS, _POLL_SECONDS = 10.0, 0.1
"""The time to wait for the content of a file that another process has just created."""


def claim(result_path: str, owner: str) -> str:
    """Claim the submission with this result for an owner, unless it has one. Return the owner.

    Returns an empty string if the other process has died while it claimed the submission. Raises `OSError`, for example
    if the task has ended and its directory is deleted.
    """
    path = Path(result_path + _SUFFIX)
    try:
        with path.open("x", encoding="utf-8") as file:
            # The task may run as another user of the directory's group.
            os.fchmod(file.fileno(), 0o600 | path.parent.stat().st_mode & 0o060)
            file.write(owner)
    except FileExistsError:
        return _content(path)
    return owner


def _content(path: Path) -> str:
    deadline = time.monotonic() + _CONTENT_SECONDS
    while not (content := path.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return content
