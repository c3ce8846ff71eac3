"""The moves of one commit, which can be undone after a failure or a kill at any point.

A commit consists of renames. It moves the files that it replaces from the output to a directory `aside`, and the staged
rows into the output. The journal lists these moves in order and is complete before the first one.

If renames are atomic, the files themselves show how many moves were made: replaced files are below `aside`, and rows
that were moved in are in the output and no longer in the staging directory. On a store that copies and deletes single
objects, a killed move may leave objects on both sides. A file next to the journal therefore has the number of the
current move. Both sides together have all objects of the move, and undoing it merges them. Undoing can be repeated.

Another program may write into the output between a kill and the undo. The journal therefore names the staged files, and
undoing takes only these out of the output.

After the last move, the file has the number of moves, on all stores. Only then the replaced files are deleted, which
takes several steps and would look like moves that were not made.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

from pushdown_spark.contract.message import Message
from pushdown_spark.runtime.file_systems.base_files import Files, is_hidden

_UNDO = ".undo-"


class Move(Message):
    """One rename. `hidden` is relative to the staged rows if `is_inward`, otherwise to the directory `aside`."""

    hidden: str
    output: str
    is_inward: bool


class CatalogChange(Message):
    """The change of a table's entry in the catalog after the moves of a commit.

    `added` and `dropped` are partitions, as directories relative to the table. `statement` creates a missing table,
    whose property says that it was created by the attempt.
    """

    database: str
    table: str
    attempt: str
    statement: str | None = None
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Journal(Message):
    """All moves of a commit. `partitions` are the partitions that it changes; "" is the whole output.

    `files` are the staged files, relative to `rows`. `change` is the change of the catalog after the moves, or None for
    outputs that are not tables.
    """

    run: str
    writer: str
    rows: str
    aside: str
    files: frozenset[str]
    moves: tuple[Move, ...]
    partitions: tuple[str, ...]
    change: CatalogChange | None = None

    def hidden_path(self, move: Move) -> str:
        """Return the full path of the hidden side of a move."""
        root = self.rows if move.is_inward else self.aside
        return f"{root}/{move.hidden}".rstrip("/")

    def files_of(self, move: Move) -> frozenset[str]:
        """Return the staged files of an inward move, relative to its ends: "" if the move is of one file."""
        prefix = f"{move.hidden}/" if move.hidden else ""
        below = (f"/{file.removeprefix(prefix)}" for file in self.files if file.startswith(prefix))
        return frozenset([""] if move.hidden in self.files else below)


@dataclass(frozen=True)
class JournalReplay:
    """The moves of a journal on a file system. `progress` is the file with the number of the current move."""

    files: Files
    journal: Journal
    progress: str

    def apply(self, check_lock: Callable[[], None]) -> None:
        """Make all moves. `check_lock` raises if another process has the lock."""
        journal = self.journal
        if any(not move.is_inward for move in journal.moves):
            self.files.make_directory(journal.aside)
        for number, move in enumerate(journal.moves):
            check_lock()
            source, target = self._ends(move)
            if not self.files.moves_directories:
                if self.files.exists(target):
                    # Another program has written it. Undoing a move that has not begun would leave nothing of it.
                    raise FileExistsError(f"cannot move {source} to {target}: the target already exists")
                self._record(number)
            if move.is_inward:
                self.files.make_directory(move.output.rpartition("/")[0])
            with hold_signals():
                self.files.rename(source, target)
        self.record_end()

    def record_end(self) -> None:
        """Record that all moves were made."""
        self._record(len(self.journal.moves))

    def are_complete(self) -> bool:
        """Return whether all moves were made."""
        moves = self.journal.moves
        if self.files.read_text(self.progress) == str(len(moves)):
            return True
        return self.files.moves_directories and all(map(self._is_complete, moves))

    def undo(self, check_lock: Callable[[], None]) -> None:
        """Undo all moves that were made or started, in reverse order. `check_lock` raises as for `apply`."""
        moves = self.journal.moves
        if self.files.moves_directories:
            moves_to_undo = list(takewhile(self._has_begun, moves))
            # The commit is no longer complete. On a full disk, files can be deleted and renamed, but not written.
            self.files.delete(self.progress)
        else:
            current = self.files.read_text(self.progress)
            moves_to_undo = [] if current is None else list(moves[: int(current) + 1])
        for number in reversed(range(len(moves_to_undo))):
            check_lock()
            if not self.files.moves_directories:
                # Before the move is undone, because the commit is no longer complete.
                self._record(number)
            move = moves_to_undo[number]
            source, target = self._ends(move)
            _restore(self.files, target, source, self.journal.files_of(move) if move.is_inward else None)

    def _record(self, number: int) -> None:
        self.files.write_text(self.progress, str(number))

    def _is_complete(self, move: Move) -> bool:
        """Return whether an atomic move was made, and was not undone."""
        is_hidden = self.files.exists(self.journal.hidden_path(move))
        return not is_hidden and self.files.exists(move.output) if move.is_inward else is_hidden

    def _has_begun(self, move: Move) -> bool:
        """Return whether an atomic move was made, and was not undone completely: files go back one by one.

        Names of data files are unique. A file such as `_SUCCESS` may be that of another program.
        """
        if self._is_complete(move):
            return True
        files = self.journal.files_of(move) if move.is_inward else ()
        return any(
            self.files.exists(f"{move.output}{file}") for file in files if not is_hidden(file.rpartition("/")[2])
        )

    def _ends(self, move: Move) -> tuple[str, str]:
        """Return source and target."""
        hidden = self.journal.hidden_path(move)
        return (hidden, move.output) if move.is_inward else (move.output, hidden)


@contextmanager
def hold_signals() -> Iterator[None]:
    """Hold back the signals that end a job until the end of the block.

    The JVM does not end a call that Python no longer waits for. A move that goes on while it is undone would mix old
    and new rows.
    """
    if threading.current_thread() is not threading.main_thread():
        # Handlers run in the main thread only.
        yield
        return
    signals: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for signal_number in handlers:
        signal.signal(signal_number, lambda number, _frame: signals.append(number))
    try:
        yield
    finally:
        # SIGINT last, because its handler may raise between two steps of this block.
        for signal_number, handler in reversed(handlers.items()):
            signal.signal(signal_number, handler)
        for number in signals:
            signal.raise_signal(number)


def fence(files: Files, journal: Journal, number: int) -> Journal:
    """Rename the hidden directories, so that another process cannot make further moves of this journal.

    Only the holder of the lock `number` uses the new names. A process that resumes after a stall finds neither staged
    rows nor the directory `aside`. Object stores cannot rename a directory in one step and rely on the lock.
    """
    if not files.moves_directories:
        return journal
    return journal.model_copy(
        update={
            "rows": _fence_directory(files, journal.rows, number),
            "aside": _fence_directory(files, journal.aside, number),
        }
    )


def has_files(files: Files, directory: str) -> bool:
    """Return whether there are files below a directory."""
    return files.exists(directory) and next(iter(files.files(directory)), None) is not None


def _fence_directory(files: Files, directory: str, number: int) -> str:
    parent, _, name = directory.rpartition("/")
    new_path = f"{directory}{_UNDO}{number}"
    for entry in files.names(parent):
        if entry == name or entry.startswith(name + _UNDO):
            # A repair with this number that failed has released its lock.
            if f"{parent}/{entry}" != new_path:
                files.rename(f"{parent}/{entry}", new_path)
            break
    return new_path


def _restore(files: Files, source: str, target: str, names: frozenset[str] | None) -> None:
    """Move back a file or directory, or only its files with some names relative to it.

    A killed move may have left a part of it at the target. With `names`, files go back one by one: other files may
    arrive in the directory at any time.
    """
    if not files.exists(source):
        return
    if names is None and not files.exists(target):
        # The parent exists unless another process has renamed it (see `fence`). Creating it would undo the rename.
        if not files.moves_directories:
            files.make_directory(target.rpartition("/")[0])
        files.rename(source, target)
        return
    for path, relative in _below(files, source):
        if names is not None and relative not in names:
            continue
        destination = f"{target}{relative}"
        if files.exists(destination):
            files.delete(path)
        else:
            files.make_directory(destination.rpartition("/")[0])
            files.rename(path, destination)
    if names is None:
        files.delete(source)
    else:
        files.delete_empty_tree(source)


def _below(files: Files, path: str) -> Sequence[tuple[str, str]]:
    """Return the files at or below a path, each with its path relative to that path."""
    if not files.is_directory(path):
        return [(path, "")]
    return [(entry.path, entry.path.removeprefix(path)) for entry in files.files(path)]
