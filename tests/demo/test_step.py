"""Steps write their output to a log, return the exit code, and print the end of the log if they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from demo.step import main, run_step


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_successful_step_prints_one_line_and_logs_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "logs" / "step.log"

    assert run_step("Greeting", log, python("print('hello')")) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert "Greeting" in lines[0]
    assert lines[0].endswith("done")
    assert log.read_text() == "hello\n"


def test_a_failed_step_returns_its_exit_code_and_prints_the_end_of_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys\nfor i in range(100): print('line', i)\nprint('the reason', file=sys.stderr); sys.exit(3)"

    assert run_step("Trouble", tmp_path / "step.log", python(code)) == 3

    printed = capsys.readouterr()
    assert "FAILED with exit code 3" in printed.out
    assert "the reason" in printed.err
    assert "line 99\n" in printed.err
    assert "line 0\n" not in printed.err


def test_a_missing_program_fails_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_step("Nothing", tmp_path / "step.log", [str(tmp_path / "no-such-program")]) == 127
    assert "no-such-program" in capsys.readouterr().out


def test_a_step_cannot_wait_for_input(tmp_path: Path) -> None:
    assert run_step("Asks", tmp_path / "step.log", python("import sys; sys.exit(len(sys.stdin.read()))")) == 0


def test_a_command_line_without_a_command_raises(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label", "log", "--"]) != 0
    assert "usage" in capsys.readouterr().err
