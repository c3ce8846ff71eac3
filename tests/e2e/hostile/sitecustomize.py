"""Kills the Python process that HOSTILE_TO names, as the kernel does when memory runs out; or stalls its children.

Python imports this by itself when its directory is on PYTHONPATH. `HOSTILE_TO=run.py` kills the driver at its start,
`pyspark.daemon` kills each Python worker as it is forked; with `HOSTILE_HOW=stall` workers hang instead.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def _strike() -> None:
    if os.environ.get("HOSTILE_HOW") == "stall":
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


_target = os.environ.get("HOSTILE_TO")
if _target and any(argument.endswith(_target) for argument in sys.orig_argv):
    if _target == "pyspark.daemon":
        os.register_at_fork(after_in_child=_strike)
    else:
        _strike()
