"""The moves of one commit, and how they are undone after a failure or a kill at any point.

A commit only renames. It moves what it replaces from the output to a directory `aside`, and the staged rows into the
output. The journal lists these moves in order and is complete before the first one. They are made one after another.

Where a rename is atomic, the files themselves show how many moves were made: something moved aside is below `aside`,
rows that moved in are gone from the staging directory and are in the output. On a store that copies and deletes object
by object, a killed move may have left objects on both sides. There a file beside the journal says which move was under
way. Its two sides are complete together, and undoing brings them together again. Undoing is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pushdown_spark.contract.message import Message
from pushdown_spark.filesystem import Files

_UNDO = ".undo-"


class Move(Message):
    """One rename. `hidden` is relative to the staged rows if `is_inward`, else to the directory aside."""

    hidden: str
    output: str
    is_inward: bool


class Journal(Message):
    """All moves of a commit. `partitions` are those that it changes, "" standing for the whole output."""

    run: str
    writer: str
    rows: str
    aside: str
    moves: tuple[Move, ...]
    partitions: tuple[str, ...]

    def hidden_path(self, move: Move) -> str:
        """The full path of a move's hidden side."""
        root = self.rows if move.is_inward else self.aside
        return f"{root}/{move.hidden}".rstrip("/")


@dataclass(frozen=True)
class Moves:
    """The moves of a journal on a file system; `progress` is the path of the file that says which one is under way."""

    files: Files
    journal: Journal
    progress: str

    def make(self, require_lock: Callable[[], None]) -> None:
        """Make all moves; `require_lock` raises if the lock has passed to another process."""
        journal = self.journal
        if any(not move.is_inward for move in journal.moves):
            self.files.make_directory(journal.aside)
        for number, move in enumerate(journal.moves):
            require_lock()
            self._record(number)
            if move.is_inward:
                self.files.make_directory(move.output.rpartition("/")[0])
            source, target = self._ends(move)
            self.files.rename(source, target)
        self._record(len(journal.moves))

    def are_complete(self) -> bool:
        """Whether every move has been made."""
        moves = self.journal.moves
        if self.files.moves_directories:
            return all(map(self._is_made, moves))
        return self.files.read_text(self.progress) == str(len(moves))

    def undo(self) -> None:
        """Undo the moves that were made or under way, last one first."""
        moves = self.journal.moves
        if self.files.moves_directories:
            begun = list(takewhile(self._is_made, moves))
        else:
            under_way = self.files.read_text(self.progress)
            begun = [] if under_way is None else list(moves[: int(under_way) + 1])
        for number in reversed(range(len(begun))):
            source, target = self._ends(begun[number])
            _restore(self.files, target, source)
            self._record(number - 1)

    def _record(self, number: int) -> None:
        if not self.files.moves_directories:
            self.files.write_text(self.progress, str(number))

    def _is_made(self, move: Move) -> bool:
        is_hidden = self.files.exists(self.journal.hidden_path(move))
        return not is_hidden and self.files.exists(move.output) if move.is_inward else is_hidden

    def _ends(self, move: Move) -> tuple[str, str]:
        """Source and target."""
        hidden = self.journal.hidden_path(move)
        return (hidden, move.output) if move.is_inward else (move.output, hidden)


def fence(files: Files, journal: Journal, number: int) -> Journal:
    """Take the hidden directories away from a process that may still make moves of this journal.

    The directories get a name that only the holder of the lock `number` knows. A process that had stalled then finds
    neither a source to move in nor a directory to move things aside to. Object stores cannot do that in one step, so
    that there the lock alone has to do.
    """
    if not files.moves_directories:
        return journal
    return journal.model_copy(
        update={"rows": _fenced(files, journal.rows, number), "aside": _fenced(files, journal.aside, number)}
    )


def has_files(files: Files, directory: str) -> bool:
    """Whether any file lies below a directory."""
    return files.exists(directory) and next(iter(files.files(directory)), None) is not None


def _fenced(files: Files, directory: str, number: int) -> str:
    parent, _, name = directory.rpartition("/")
    renamed = f"{directory}{_UNDO}{number}"
    for entry in files.names(parent):
        if entry == name or entry.startswith(name + _UNDO):
            files.rename(f"{parent}/{entry}", renamed)
            break
    return renamed


def _restore(files: Files, source: str, target: str) -> None:
    """Move back a file or directory, of which a killed move may have left a part at the target."""
    if not files.exists(source):
        return
    if not files.exists(target):
        # Its parent is there, unless another process has fenced it off; making one would undo the fence.
        if not files.moves_directories:
            files.make_directory(target.rpartition("/")[0])
        files.rename(source, target)
        return
    for path, relative in _below(files, source):
        destination = f"{target}{relative}"
        if files.exists(destination):
            files.delete(path)
        else:
            files.make_directory(destination.rpartition("/")[0])
            files.rename(path, destination)
    files.delete(source)


def _below(files: Files, path: str) -> Sequence[tuple[str, str]]:
    """The files at or below a path, each with the rest of its path from there on."""
    if not files.is_directory(path):
        return [(path, "")]
    return [(entry.path, entry.path.removeprefix(path)) for entry in files.files(path)]
