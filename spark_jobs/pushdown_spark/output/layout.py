"""Where an output and the hidden files of its commits lie.

Beside an output `sales` there is one hidden directory as long as something is written or undone:

    .sales.pushdown/
        staging-RUN/ATTEMPT/        rows that Spark writes for one attempt of a run
        staging-RUN/ATTEMPT.claim   there until the attempt ends, or another attempt of the same run begins
        staging-RUN/ATTEMPT.others  partitions that other runs have committed since the claim was made
        aside-ATTEMPT/NUMBER        files and directories of the output that a commit has moved out of the way
        commits/NUMBER.lock         held while a commit is made or undone; the highest number counts
        commits/NUMBER-ATTEMPT.journal  the moves of the commit, written before the first of them is made
        commits/NUMBER.heartbeat    rewritten every few seconds while the holder of the lock lives

RUN is a hash of the key of the logical run, the same for each of its attempts. ATTEMPT is random.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

CLAIM = ".claim"
CLAIMS_OF_ALL_RUNS = f"staging-*/*{CLAIM}"
"""Glob pattern below the hidden directory."""
_OTHERS = ".others"


@dataclass(frozen=True)
class OutputPaths:
    """Paths of one attempt to write an output: `control` is the hidden directory beside it."""

    output: str
    control: str
    run: str
    attempt: str

    @classmethod
    def of(cls, parent: str, name: str, run_key: str) -> OutputPaths:
        """The paths of a new attempt of the run with this key, for the output `name` in the directory `parent`."""
        run = hashlib.sha256(run_key.encode()).hexdigest()[:16]
        return cls(f"{parent}/{name}", f"{parent}/.{name}.pushdown", run, uuid.uuid4().hex[:16])

    @property
    def staging(self) -> str:
        """What all attempts of the run stage."""
        return f"{self.control}/staging-{self.run}"

    @property
    def rows(self) -> str:
        """What this attempt stages."""
        return f"{self.staging}/{self.attempt}"

    @property
    def claim(self) -> str:
        """The file that shows that this attempt is under way."""
        return self.rows + CLAIM

    @property
    def others(self) -> str:
        """The file with the commits of other runs during this attempt."""
        return others_beside(self.claim)

    @property
    def aside(self) -> str:
        """Where this attempt's commit puts what it replaces."""
        return f"{self.control}/aside-{self.attempt}"

    @property
    def commits(self) -> str:
        """The directory of the lock."""
        return f"{self.control}/commits"


def others_beside(claim: str) -> str:
    """The file with the commits of other runs that belongs to a claim."""
    return claim.removesuffix(CLAIM) + _OTHERS
