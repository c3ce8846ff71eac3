"""One commit at a time for an output, and the repair of commits whose process was killed.

The lock is a file `NUMBER.lock` that only one process can create:

1. A process that creates `1.lock` and then sees no other lock holds the lock, and deletes the file after its commit.
   Other processes wait.
2. The holder rewrites a heartbeat file every few seconds. A waiting process considers the holder dead if all locks and
   heartbeats stay unchanged for `patience` seconds on its own clock. A new attempt of the same run takes the lock from
   the earlier attempt at once, unless the store moves directories by copies: nothing stops a driver that is still
   alive from deleting what it has copied, so the attempt waits, too.
3. The waiting process creates the lock with the next number, which names the attempt of the previous holder. The new
   lock is valid if that attempt still has its lock.
4. The new holder undoes the journal of the dead commit, or completes it if all moves were made, and deletes the lower
   locks. If this process is killed, the next one repeats steps 2 to 4.

Files belong to a table only if the catalog has the table and its partitions. A commit updates the catalog after the
last move and before it deletes the journal. The process that completes an interrupted commit therefore also updates it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from py4j.protocol import Py4JError
from pydantic import ValidationError

from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.output.files.journal import CatalogChange, Journal, JournalReplay, fence, has_files, hold_signals
from pushdown_spark.output.files.layout import CLAIMS_OF_ALL_RUNS, LOCK, OutputPaths, other_commits_path
from pushdown_spark.runtime.exception_chain import root_message
from pushdown_spark.runtime.file_systems.base_files import DRAFT, Files

PATIENCE_SECONDS = 60.0
"""The time without a heartbeat after which a commit is undone."""
_BEATS = 12
"""The number of heartbeats within that time."""
_REPLAYED = ".progress"
"""The suffix of the file in which a replay records its moves."""
_NOTE_ATTEMPTS = 5
"""How often the note for another attempt is written again."""
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.02, 1.0
"""The pause between two checks of a lock of another process."""


@dataclass(frozen=True)
class _Lock:
    """The content of a lock: the hash of the run that holds it, its attempt, and the attempt that it follows.

    All are empty between the creation of the file and the write of its text.
    """

    run: str = ""
    attempt: str = ""
    follows: str = ""


class Catalog(Protocol):
    """The catalog of a table. Both methods can be repeated."""

    def update(self, change: CatalogChange) -> None:
        """Apply a change after the last move."""

    def revert(self, change: CatalogChange) -> None:
        """Undo the parts of a change that were applied."""


class _NoCatalog:
    """The catalog of an output that is not a table."""

    def update(self, change: CatalogChange) -> None:
        raise BadSpecError(
            f"output: the directory belongs to the table {change.database}.{change.table}, whose last commit was "
            "interrupted; write to it with output_table"
        )

    revert = update


class CommitLog:
    """The commits of one output, for one attempt of one run."""

    def __init__(
        self, files: Files, paths: OutputPaths, *, patience: float = PATIENCE_SECONDS, catalog: Catalog | None = None
    ) -> None:
        """A commit of another run without a heartbeat for `patience` seconds is undone."""
        self.files = files
        self.paths = paths
        self._patience = patience
        self._catalog: Catalog = catalog or _NoCatalog()
        self._number = 0
        self._check_claim: Callable[[], None] | None = None

    @contextlib.contextmanager
    def lock(self, check_claim: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock. Within the block, no other process commits and all earlier commits are complete or undone.

        Without `check_claim`, this attempt begins, and takes the lock from other attempts of the same run.
        With it, this attempt waits for the lock, and `check_claim` raises if a later attempt has begun.
        A commit that the block cannot undo keeps its lock, so that the next process undoes the commit. A repair that
        fails keeps it, too, so that the process whose commit it has begun to undo does not continue.
        """
        is_repaired = False
        self._check_claim = check_claim
        self._number = self._acquire_lock()
        stop = threading.Event()
        heartbeat = threading.Thread(target=self._send_heartbeats, args=(self._number, stop), daemon=True)
        heartbeat.start()
        try:
            self._repair()
            is_repaired = True
            yield
        finally:
            stop.set()
            heartbeat.join()
            if is_repaired:
                self._release_lock()

    def commit(self, journal: Journal) -> None:
        """Make the moves of a journal, within `lock`. If one fails, undo all of them and raise.

        Raises PushdownError if another process has taken the lock and has undone this commit (see `check_lock`).
        """
        self.files.write_text(self._journal, journal.model_dump_json())
        try:
            self.check_lock()
        except BaseException:
            # No move was made, and the process that took the lock has not seen the journal.
            self.files.delete(self._journal)
            raise
        try:
            self._replay(journal, self._journal).apply(self.check_lock)
            self._update_catalog(journal)
        except BaseException:
            try:
                self.check_lock()
            except PushdownError:
                # The process that took the lock has undone the moves.
                self.files.delete_empty(journal.aside)
                raise
            self._undo(journal, self._journal)
            raise
        self.check_lock()
        self._complete(journal, self._journal)

    def check_lock(self) -> None:
        """Raise, within `lock`, if another process has taken the lock.

        Raises OutputTakenError if a later attempt of the run has begun. If another run has undone or completed the
        commit, another try may succeed, so that the error is a PushdownError.
        """
        locks = self._read_locks()
        own_lock = locks.get(self._number)
        later = locks.get(self._number + 1)
        is_held = own_lock is not None and own_lock.attempt == self.paths.attempt
        if not is_held or (later is not None and later.follows == self.paths.attempt):
            if self._check_claim is not None:
                self._check_claim()
            raise PushdownError(
                f"output: another run has taken the lock of {self.paths.output}, because this process did not respond "
                f"for {self._patience:.0f} seconds, and has undone or completed its commit; run the task again"
            )

    def is_unfinished(self) -> bool:
        """Return whether a commit of this attempt is neither complete nor undone."""
        return bool(self.files.glob(self.paths.commits, f"*-{self.paths.attempt}.journal"))

    def commits_of_others(self) -> dict[str, str]:
        """Return the partitions that other runs have committed during this attempt, with the names of these runs."""
        return _read_other_commits(self.files, self.paths.other_commits)

    def _update_catalog(self, journal: Journal) -> None:
        self.check_lock()
        if journal.change is not None:
            with hold_signals():
                self._catalog.update(journal.change)

    def _complete(self, journal: Journal, path: str) -> None:
        """Complete a commit after its last move: notify the other attempts, and delete the replaced files."""
        for claim in self.files.glob(self.paths.hidden_directory, CLAIMS_OF_ALL_RUNS):
            if f"/staging-{journal.run}/" not in claim:
                self._notify(claim, journal)
        try:
            self.files.delete(journal.aside)
            self.files.delete(journal.rows)
        except (OSError, Py4JError) as problem:
            raise OSError(
                f"the rows of {journal.writer} are in {self.paths.output}, but the files that they replaced cannot be "
                f"deleted ({root_message(problem)}); delete {journal.aside}, and run the task again"
            ) from None
        self._delete_journal(path)

    def _notify(self, claim: str, journal: Journal) -> None:
        """Tell another attempt which partitions a commit has changed. The attempt may end, and delete its files."""
        note = other_commits_path(claim)
        for attempts_left in reversed(range(_NOTE_ATTEMPTS)):
            try:
                commits = _read_other_commits(self.files, note) | dict.fromkeys(journal.partitions, journal.writer)
                self.files.write_text(note, json.dumps(commits))
                return
            except (OSError, Py4JError):
                if not self.files.exists(claim):
                    return
                if not attempts_left:
                    raise

    def _repair(self) -> None:
        """Undo the commits of lower locks, or complete them if all their moves were made."""
        for path in self.files.glob(self.paths.commits, "*.journal"):
            journal = self._read_journal(path)
            if journal is not None:
                self.check_lock()
                self._undo_or_complete(fence(self.files, journal, self._number), path)
        self.check_lock()
        for number in self._read_locks():
            if number < self._number:
                self._delete_lock(number)
        for name in self.files.names(self.paths.commits):
            if name.endswith((DRAFT, _REPLAYED)):
                self.files.delete(f"{self.paths.commits}/{name}")

    def _read_journal(self, path: str) -> Journal | None:
        text = self.files.read_text(path)
        try:
            return None if text is None else Journal.model_validate_json(text)
        except ValidationError:
            raise BadSpecError(
                f"output: the journal {path} of an interrupted commit cannot be read. If {self.paths.hidden_directory} "
                f"has directories aside-*, move their files back to {self.paths.output}. Then delete the journal, and "
                "run the task again"
            ) from None

    def _undo_or_complete(self, journal: Journal, path: str) -> None:
        replay = self._replay(journal, path)
        if replay.are_complete():
            # The process that made the last move may have ended before it could record that.
            replay.record_end()
            self._update_catalog(journal)
            self.check_lock()
            self._complete(journal, path)
        elif self.files.exists(path):
            self._undo(journal, path)
            self.files.delete(journal.rows)
            self.files.delete_empty(journal.rows.rpartition("/")[0])
        else:
            # Its own process has completed it: it deletes the journal before the record of the moves.
            self.files.delete(journal.rows)
            self.files.delete(journal.aside)

    def _undo(self, journal: Journal, path: str) -> None:
        self._replay(journal, path).undo(self.check_lock)
        if has_files(self.files, journal.aside):
            raise OSError(f"{journal.aside} still has files of {self.paths.output}; move them back manually")
        self.check_lock()
        if journal.change is not None:
            self._catalog.revert(journal.change)
        self.files.delete(journal.aside)
        self._delete_journal(path)

    def _replay(self, journal: Journal, path: str) -> JournalReplay:
        return JournalReplay(self.files, journal, path + _REPLAYED)

    def _delete_journal(self, path: str) -> None:
        """Delete the journal of a complete or undone commit."""
        self.files.delete(path)
        # This file shows that the commit is complete, so it is deleted last.
        self.files.delete(path + _REPLAYED)

    def _acquire_lock(self) -> int:
        """Wait for the lock, and return its number. The lock of a dead process is followed by the next number."""
        last_state: object = None
        since = time.monotonic()
        pause = _MIN_PAUSE_SECONDS
        takes_over = self._check_claim is None and self.files.moves_directories
        while True:
            if self._check_claim is not None:
                self._check_claim()
            locks = self._read_locks()
            if not locks:
                if self._create_first_lock():
                    return 1
                continue
            state = (locks, [self.files.read_text(self._path("heartbeat", number)) for number in locks])
            if state != last_state:
                last_state, since = state, time.monotonic()
            is_dead = time.monotonic() - since >= self._patience
            if is_dead or (takes_over and all(map(self._is_earlier_attempt, locks.values()))):
                number = self._take_over(locks)
                if number is not None:
                    return number
            else:
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _create_first_lock(self) -> bool:
        """Create the lock 1. Return False if another process is faster, or has taken over a lock since the listing."""
        if not self._create_lock(1, _Lock()):
            return False
        locks = self._read_locks()
        if locks.keys() == {1} and locks[1].attempt == self.paths.attempt:
            return True
        self._delete_lock(1)
        return False

    def _take_over(self, locks: Mapping[int, _Lock]) -> int | None:
        """Create the lock after the newest one, and return its number, or None if another process was faster."""
        newest = max(locks)
        number = newest + 1
        if not self._create_lock(number, locks[newest]):
            return None
        if self._read_lock(newest) == locks[newest]:
            return number
        # Another process has completed the repair in the meantime.
        self.files.delete(self._path("lock", number))
        return None

    def _create_lock(self, number: int, before: _Lock) -> bool:
        lock = {
            "run": self.paths.run,
            "attempt": self.paths.attempt,
            "follows": before.attempt,
            "writer": self.paths.writer,
        }
        return self.files.create(self._path("lock", number), json.dumps(lock))

    def _is_earlier_attempt(self, lock: _Lock) -> bool:
        return lock.run == self.paths.run and lock.attempt != self.paths.attempt

    def _read_locks(self) -> dict[int, _Lock]:
        """Return all locks by their numbers."""
        stems = (name.removesuffix(LOCK) for name in self.files.names(self.paths.commits) if name.endswith(LOCK))
        locks = {int(stem): self._read_lock(int(stem)) for stem in stems}
        return {number: lock for number, lock in locks.items() if lock is not None}

    def _read_lock(self, number: int) -> _Lock | None:
        """Return a lock, or None if there is no lock with this number."""
        text = self.files.read_text(self._path("lock", number))
        if text is None:
            return None
        try:
            content = json.loads(text)
        except ValueError:
            return _Lock()
        return _Lock(content["run"], content["attempt"], content["follows"])

    def _release_lock(self) -> None:
        """Delete the lock, unless a commit that could not be undone needs it."""
        if not self.files.exists(self._journal):
            self._delete_lock(self._number)
        self.files.delete_empty(self.paths.commits)
        self.files.delete_empty(self.paths.hidden_directory)

    def _delete_lock(self, number: int) -> None:
        """Delete a lock of a dead process or of this attempt, but not a newer lock of another process."""
        lock = self._read_lock(number)
        is_old = lock is not None and (number < self._number or lock.attempt == self.paths.attempt)
        if is_old or lock is None:
            # Also that of this attempt after another process has taken its lock, used it and deleted it.
            self.files.delete(self._path("heartbeat", number))
        if is_old:
            self.files.delete(self._path("lock", number))

    def _send_heartbeats(self, number: int, stop: threading.Event) -> None:
        beat = 0
        while not stop.wait(self._patience / _BEATS):
            beat += 1
            # The next heartbeat makes up for a failed one.
            with contextlib.suppress(Exception):
                self.files.write_text(self._path("heartbeat", number), f"{self.paths.attempt} {beat}")

    @property
    def _journal(self) -> str:
        # The name has the attempt, so that a process that resumes cannot delete the journal of a later lock.
        return f"{self.paths.commits}/{self._number}-{self.paths.attempt}.journal"

    def _path(self, kind: str, number: int) -> str:
        return f"{self.paths.commits}/{number}.{kind}"


def _read_other_commits(files: Files, path: str) -> dict[str, str]:
    commits: dict[str, str] = json.loads(files.read_text(path) or "{}")
    return commits
