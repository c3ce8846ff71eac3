"""Kill or stall the Python process that HOSTILE_TO names. The kill is a SIGKILL, as if memory ran out.

Python imports this module automatically if its directory is on PYTHONPATH. `HOSTILE_TO=job.py` kills the driver at its
start, `pyspark.daemon` kills each Python worker when it loads the job's code. With `HOSTILE_HOW=stall`, workers hang
instead.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def _strike() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _strike_at_work(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and str(arguments[0]).startswith("pushdown_spark"):
        _strike()


def _in_worker() -> None:
    if os.environ.get("HOSTILE_HOW") == "stall":
        time.sleep(600)
    sys.addaudithook(_strike_at_work)


_target = os.environ.get("HOSTILE_TO")
if _target and any(argument.endswith(_target) for argument in sys.orig_argv):
    if _target == "pyspark.daemon":
        os.register_at_fork(after_in_child=_in_worker)
    else:
        _strike()
