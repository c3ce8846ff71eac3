"""Halts a Python process that opens a file whose path holds E2E_STALL_AT, for as long as E2E_STALL_WHILE exists.

Python imports this by itself when its directory is on PYTHONPATH, as it is for the kill checks' executors.
A file beside E2E_STALL_WHILE, named after the process, says that one has come to a halt.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def _halt(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or os.environ["E2E_STALL_AT"] not in str(arguments[0]):
        return
    wanted = Path(os.environ["E2E_STALL_WHILE"])
    if wanted.exists():
        wanted.with_name(f"halted-{os.getpid()}").touch()
    while wanted.exists():
        time.sleep(0.1)


if "E2E_STALL_WHILE" in os.environ:
    sys.addaudithook(_halt)
