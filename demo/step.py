"""Steps of the build: the output of a command goes to a log, its progress to one line with the elapsed time.

python -m demo.step "Spark environment" .demo/logs/spark-environment.log -- pip install ...
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LABEL_WIDTH = 44
TAIL_LINES = 40
TERMINAL_INTERVAL = 1.0
PLAIN_INTERVAL = 15.0


def run_step(label: str, log: Path, command: Sequence[str]) -> int:
    """Run `command`, show the end of its output if it fails, and return its exit code.

    On a terminal, one line shows the elapsed seconds. Elsewhere, a line is printed every few seconds.

    `label` describes the step in a few words. `log` receives the output of the command and is overwritten.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    line = _ProgressLine(label)
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - the commands are the demo's own
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            line.finish(f"failed: {error}")
            return 127
        try:
            code = _wait(process, line)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            line.finish("interrupted")
            return 130
    if code == 0:
        line.finish("done")
    else:
        line.finish(f"FAILED with exit code {code}")
        _show_tail(log)
    return code


class _ProgressLine:
    """The progress line of a step. It is rewritten on a terminal, and repeated at intervals elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._start_time = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self.interval = TERMINAL_INTERVAL if self._is_terminal else PLAIN_INTERVAL
        if self._is_terminal:
            self.tick()

    def tick(self) -> None:
        """Show that the step is running."""
        self._write("...", end="" if self._is_terminal else "\n")

    def finish(self, outcome: str) -> None:
        """Show how the step ended."""
        self._write(outcome, end="\n")

    def _write(self, state: str, end: str) -> None:
        seconds = time.monotonic() - self._start_time
        start = "\r\033[K" if self._is_terminal else ""
        print(f"{start}  {self._label:<{LABEL_WIDTH}} {seconds:6.1f} s  {state}", end=end, flush=True)


def _wait(process: subprocess.Popen[bytes], line: _ProgressLine) -> int:
    while True:
        try:
            return process.wait(line.interval)
        except subprocess.TimeoutExpired:
            line.tick()


def _show_tail(log: Path) -> None:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"\nThe end of {log}:\n", file=sys.stderr)
    for text in lines[-TAIL_LINES:]:
        print(f"    {text}", file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Parse `LABEL LOG -- COMMAND...` and run the step."""
    label, log, separator, *command = arguments
    if separator != "--" or not command:
        print('usage: python -m demo.step "LABEL" LOG -- COMMAND...', file=sys.stderr)
        return os.EX_USAGE
    return run_step(label, Path(log), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
