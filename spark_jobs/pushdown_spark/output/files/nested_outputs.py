"""The check that no run writes an output while another run writes one of its partitions as an output of its own.

The output `/lake/out` has another lock than `/lake/out/day=1`, so such runs do not wait for each other. One could
replace rows that the other one has just written, and the repair of a killed commit could bring back replaced rows. So
a run fails if it finds the claim of such a run. It creates its own claim before it looks, so that at least one of two
runs finds the other one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from py4j.protocol import Py4JJavaError

from pushdown_spark.errors import ErrorCode, PushdownError
from pushdown_spark.output.files.layout import CLAIMS_OF_ALL_RUNS, CLAIMS_OF_PARTITIONS, control_directory
from pushdown_spark.runtime.file_systems.base_files import Files

_ROOT = re.compile(r"[^/]+:(//[^/]*)?")


def check_nested_outputs(files: Files, output: str, partitions: Sequence[str] = ()) -> None:
    """Raise PushdownError if a run is writing an output that this one is a partition of, or a partition of this one.

    Partitions below the first level are only found in the directories of the given ones.
    """
    for claim in (*_outer_claims(files, output), *_inner_claims(files, output, partitions)):
        parent, _, hidden = claim.rsplit("/", 2)[0].rpartition("/")
        other = f"{parent}/{hidden[1:].removesuffix('.pushdown')}"
        raise PushdownError(
            f"output: another run is writing {other}, and {max(other, output, key=len)} is a partition of "
            f"{min(other, output, key=len)}, so the output is unchanged; run the task again after that run. If that "
            f"run was killed, repeat it first, or write {other} with another run and delete {claim}",
            code=ErrorCode.SPARK,
        )


def _outer_claims(files: Files, output: str) -> Iterator[str]:
    """Yield the claims of the outputs that this one is a partition of."""
    outer, _, name = output.rpartition("/")
    while "=" in name and not _ROOT.fullmatch(outer):
        outer, _, name = outer.rpartition("/")
        # The job may not be allowed to look there. Then only the other run can find the claim of this one.
        with suppress(Py4JJavaError):
            yield from files.glob(control_directory(outer, name), CLAIMS_OF_ALL_RUNS)


def _inner_claims(files: Files, output: str, partitions: Sequence[str]) -> Iterator[str]:
    """Yield the claims of the partitions of this output that are outputs of their own."""
    directories = {output}
    for partition in partitions:
        steps = partition.split("/")
        directories.update("/".join([output, *steps[:depth]]) for depth in range(1, len(steps)))
    for directory in sorted(directories):
        yield from files.glob(directory, CLAIMS_OF_PARTITIONS)
