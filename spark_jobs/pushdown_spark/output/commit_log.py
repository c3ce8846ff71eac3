"""One commit at a time for an output, and the repair of commits whose process was killed.

The lock is a file `NUMBER.lock` that only one process can create. Whoever finds a lock waits until it is gone. A holder
that lives rewrites a heartbeat every few seconds. If all locks and heartbeats stay the same for `patience` seconds by
the waiting process's own clock, or if the lock belongs to an earlier attempt of the same run, the holder is taken for
dead. The waiting process then creates the lock with the next number, which names the attempt that it follows. If that
attempt still has its lock, the new lock is valid: its holder undoes the journal of the dead commit (or ends it, if all
its moves were made) and deletes the lower numbers. If it is killed too, the next one does the same again.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pushdown_spark.errors import OutputTakenError
from pushdown_spark.filesystem import DRAFT, Files
from pushdown_spark.output.journal import Journal, Moves, fence, has_files
from pushdown_spark.output.layout import CLAIMS_OF_ALL_RUNS, OutputPaths, others_beside

PATIENCE_SECONDS = 60.0
"""How long a lock must show no sign of life before its commit is undone."""
_BEATS = 12
"""Heartbeats within the patience of others."""
_LOCK = ".lock"
_PROGRESS = ".progress"
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0
"""Between two looks at a lock that another process holds."""


@dataclass(frozen=True)
class _Lock:
    """What a lock says: the hash of the run that holds it, which attempt of it, and which attempt it follows.

    All are empty while the process that has created the file is about to write its text.
    """

    run: str = ""
    attempt: str = ""
    follows: str = ""


class CommitLog:
    """The commits of one output, seen from one attempt of one run. `writer` names the run in messages to others."""

    def __init__(self, files: Files, paths: OutputPaths, writer: str, patience: float = PATIENCE_SECONDS) -> None:
        self._files = files
        self._paths = paths
        self.writer = writer
        self._patience = patience
        self._number = 0

    @contextlib.contextmanager
    def locked(self, require_claim: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock; no commit of another process is under way or half done within the block.

        `require_claim` raises if a later attempt of the same run has begun: it must not lose its lock to this one. A
        commit that the block could not undo keeps its lock, so that the next process undoes it.
        """
        self._number = self._acquire(require_claim)
        ended = threading.Event()
        heart = threading.Thread(target=self._beat, args=(self._number, ended), daemon=True)
        heart.start()
        try:
            self._repair()
            yield
        finally:
            ended.set()
            heart.join()
            self._release()

    def commit(self, journal: Journal) -> None:
        """Make the moves of a journal, within `locked`; if one fails, undo them all and raise.

        Raises OutputTakenError, with nothing left of this commit, if another process has taken the lock over.
        """
        self._files.write_text(self._journal, journal.model_dump_json())
        try:
            self._moves(journal, self._journal).make(self._require_lock)
        except BaseException:
            try:
                self._require_lock()
            except OutputTakenError:
                # Whoever has taken the lock has undone the moves already.
                self._files.delete_empty(journal.aside)
                raise
            self._undo(journal, self._journal)
            raise
        self._end(journal)
        self._drop(self._journal)

    def is_unfinished(self) -> bool:
        """Whether a commit of this attempt has neither been ended nor undone."""
        return bool(self._files.matching(self._paths.commits, f"*-{self._paths.attempt}.journal"))

    def commits_of_others(self) -> dict[str, str]:
        """Partitions that other runs have committed during this attempt, with the names of these runs."""
        return _read_others(self._files, self._paths.others)

    def _end(self, journal: Journal) -> None:
        """Finish a commit after its last move: notify the other attempts, and delete what was replaced."""
        for claim in self._files.matching(self._paths.control, CLAIMS_OF_ALL_RUNS):
            if f"/staging-{journal.run}/" not in claim:
                note = others_beside(claim)
                known = _read_others(self._files, note) | dict.fromkeys(journal.partitions, journal.writer)
                self._files.write_text(note, json.dumps(known))
        self._files.delete(journal.aside)
        self._files.delete(journal.rows)

    def _repair(self) -> None:
        """Undo the commits of lower locks, or end those whose moves were all made."""
        for path in self._files.matching(self._paths.commits, "*.journal"):
            text = self._files.read_text(path)
            if text is not None:
                self._undo_or_end(fence(self._files, Journal.model_validate_json(text), self._number), path)
        for number in self._locks():
            if number < self._number:
                self._forget(number)
        for name in self._files.names(self._paths.commits):
            if name.endswith(DRAFT):
                self._files.delete(f"{self._paths.commits}/{name}")

    def _undo_or_end(self, journal: Journal, path: str) -> None:
        if self._moves(journal, path).are_complete():
            self._end(journal)
            self._drop(path)
        else:
            self._undo(journal, path)
            self._files.delete(journal.rows)
            self._files.delete_empty(journal.rows.rpartition("/")[0])

    def _undo(self, journal: Journal, path: str) -> None:
        self._moves(journal, path).undo()
        if has_files(self._files, journal.aside):
            raise OSError(f"{journal.aside} still holds files of {self._paths.output}; move them back by hand")
        self._files.delete(journal.aside)
        self._drop(path)

    def _moves(self, journal: Journal, path: str) -> Moves:
        return Moves(self._files, journal, path + _PROGRESS)

    def _drop(self, path: str) -> None:
        """Delete the journal of a commit that was ended or undone; without progress no move counts as begun."""
        self._files.delete(path + _PROGRESS)
        self._files.delete(path)

    def _acquire(self, require_claim: Callable[[], None]) -> int:
        observed: object = None
        since = time.monotonic()
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            require_claim()
            locks = self._locks()
            if not locks:
                if self._create(1, _Lock()):
                    return 1
                continue
            state = (locks, [self._files.read_text(self._path("heartbeat", number)) for number in locks])
            if state != observed:
                observed, since = state, time.monotonic()
            is_dead = time.monotonic() - since >= self._patience
            if is_dead or all(map(self._is_earlier_attempt, locks.values())):
                newest = max(locks)
                if self._create(newest + 1, locks[newest]):
                    if self._lock(newest) == locks[newest]:
                        return newest + 1
                    # Another process was faster and has ended the repair already.
                    self._files.delete(self._path("lock", newest + 1))
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _create(self, number: int, before: _Lock) -> bool:
        lock = {
            "run": self._paths.run,
            "attempt": self._paths.attempt,
            "follows": before.attempt,
            "writer": self.writer,
        }
        return self._files.create(self._path("lock", number), json.dumps(lock))

    def _is_earlier_attempt(self, lock: _Lock) -> bool:
        return lock.run == self._paths.run and lock.attempt != self._paths.attempt

    def _locks(self) -> dict[int, _Lock]:
        """All locks by their numbers."""
        stems = (name.removesuffix(_LOCK) for name in self._files.names(self._paths.commits) if name.endswith(_LOCK))
        found = {int(stem): self._lock(int(stem)) for stem in stems}
        return {number: lock for number, lock in found.items() if lock is not None}

    def _lock(self, number: int) -> _Lock | None:
        """What a lock says; None if there is no lock with this number."""
        text = self._files.read_text(self._path("lock", number))
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            return _Lock()
        return _Lock(found["run"], found["attempt"], found["follows"])

    def _require_lock(self) -> None:
        locks = self._locks()
        mine = locks.get(self._number)
        later = locks.get(self._number + 1)
        is_mine = mine is not None and mine.attempt == self._paths.attempt
        if not is_mine or (later is not None and later.follows == self._paths.attempt):
            raise OutputTakenError(
                f"output: another process has undone this commit of {self._paths.output}: a later attempt of the run "
                f"has begun, or there was no sign of life for {self._patience:.0f} seconds. Nothing of it was kept"
            )

    def _release(self) -> None:
        """Give the lock up, unless a commit that could not be undone still needs it."""
        if not self._files.exists(self._journal):
            self._forget(self._number)
        self._files.delete_empty(self._paths.commits)
        self._files.delete_empty(self._paths.control)

    def _forget(self, number: int) -> None:
        """Delete a lock of a dead process, or this attempt's own; not one that a later process has made since."""
        lock = self._lock(number)
        if lock is not None and (number < self._number or lock.attempt == self._paths.attempt):
            self._files.delete(self._path("heartbeat", number))
            self._files.delete(self._path("lock", number))

    def _beat(self, number: int, ended: threading.Event) -> None:
        beat = 0
        while not ended.wait(self._patience / _BEATS):
            beat += 1
            # A missed heartbeat is made up for by the next.
            with contextlib.suppress(Exception):
                self._files.write_text(self._path("heartbeat", number), f"{self._paths.attempt} {beat}")

    @property
    def _journal(self) -> str:
        # The attempt is part of the name: a process that had stalled must not delete the journal of a later lock.
        return f"{self._paths.commits}/{self._number}-{self._paths.attempt}.journal"

    def _path(self, kind: str, number: int) -> str:
        return f"{self._paths.commits}/{number}.{kind}"


def _read_others(files: Files, path: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(files.read_text(path) or "{}")
    return found
