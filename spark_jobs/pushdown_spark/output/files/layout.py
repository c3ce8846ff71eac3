"""Paths of an output and of the hidden files of its commits.

A hidden directory next to the output `sales` exists while rows are written or a commit is undone, and keeps a record in
modes that write once:

    .sales.pushdown/
        staging-RUN/ATTEMPT/        rows that Spark writes for one attempt of a run
        staging-RUN/ATTEMPT.claim   exists until the attempt ends or another attempt of the same run begins
        staging-RUN/ATTEMPT.others  partitions that other runs have committed since the claim was created
        aside-ATTEMPT/NUMBER        files and directories of the output that a commit replaces
        commits/NUMBER.lock         exists while a commit is made or undone; the highest number is valid
        commits/NUMBER-ATTEMPT.journal  the moves of the commit, written before the first move
        commits/NUMBER-ATTEMPT.journal.progress  the number of the current move, or that of all moves after the last one
        commits/NUMBER.heartbeat    rewritten every few seconds by the holder of the lock
        .RUN.committed              the commit of the run that has created the output; this file stays

RUN is a hash of the key of the logical run. It is the same for all attempts of a run. ATTEMPT is random.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass

CLAIM, LOCK = ".claim", ".lock"
CLAIMS_OF_ALL_RUNS = f"staging-*/*{CLAIM}"
"""Glob pattern below the hidden directory."""
CLAIMS_OF_PARTITIONS = f".*=*.pushdown/{CLAIMS_OF_ALL_RUNS}"
"""Glob pattern in a directory with partitions that are outputs of their own."""
_RECORD = ".committed"
RECORDS_OF_ALL_RUNS = f".*{_RECORD}"
"""Glob pattern in the hidden directory. Spark reads files of this directory for a pattern like `/lake/*`, but not those
whose names begin with a dot."""
_OTHERS = ".others"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class OutputPaths:
    """Paths of one attempt to write an output. `hidden_directory` is next to it.

    `writer` names the run in errors of other runs.
    """

    output: str
    hidden_directory: str
    run: str
    attempt: str
    writer: str

    @classmethod
    def of(cls, parent: str, name: str, run_key: str) -> OutputPaths:
        """Return the paths of a new attempt of a run, for the output `name` in the directory `parent`."""
        run = hashlib.sha256(run_key.encode()).hexdigest()[:16]
        return cls(f"{parent}/{name}", hidden_directory(parent, name), run, uuid.uuid4().hex[:16], f"run {run_key}")

    @property
    def staging(self) -> str:
        """The staging directory of all attempts of the run."""
        return f"{self.hidden_directory}/staging-{self.run}"

    @property
    def rows(self) -> str:
        """The directory of the rows that this attempt stages."""
        return f"{self.staging}/{self.attempt}"

    @property
    def claim(self) -> str:
        """The file that exists while this attempt is active."""
        return self.rows + CLAIM

    @property
    def other_commits(self) -> str:
        """The file that lists the commits of other runs during this attempt."""
        return other_commits_path(self.claim)

    @property
    def aside(self) -> str:
        """The directory for the files that this attempt's commit replaces."""
        return f"{self.hidden_directory}/aside-{self.attempt}"

    @property
    def record(self) -> str:
        """The file about the commit of the run."""
        return f"{self.hidden_directory}/.{self.run}{_RECORD}"

    @property
    def commits(self) -> str:
        """The directory of locks and journals."""
        return f"{self.hidden_directory}/commits"

    def below_rows(self, path: str) -> str:
        """Return the path of a staged file below the directory of the rows, with a slash at its start."""
        return path.removeprefix(self.rows)

    def partition_of(self, path: str) -> str:
        """Return the directory of a staged file, relative to the directory of the rows; empty without partitions."""
        return self.below_rows(path).rpartition("/")[0].strip("/")


def hidden_directory(parent: str, name: str) -> str:
    """Return the hidden directory of the output `name` in the directory `parent`."""
    return f"{parent}/.{name}.pushdown"


def unescape_name(name: str) -> str:
    """Return the column or the value that Spark reads from its part of the name of a partition's directory.

    >>> unescape_name("a%2Fb"), unescape_name("%C3%A9"), unescape_name("100%")
    ('a/b', 'Ã©', '100%')
    """
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def other_commits_path(claim: str) -> str:
    """Return the file that lists the commits of other runs during the attempt with this claim."""
    return claim.removesuffix(CLAIM) + _OTHERS
