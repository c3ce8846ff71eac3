"""Compiles the loops over encoded records to machine code, once for all processes where there is a place to keep it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType

from pushdown_spark.readers.avro import copying, walk

_PARTS: tuple[Callable[..., object], ...] = (
    walk.zigzag,
    walk.word,
    walk.put,
    walk.walk_value,
    walk.walk_branch,
    walk.walk_next,
    walk.walk_record,
)

Function = Callable[..., int]


@cache
def compiled_walk() -> Function:
    """The function `walk.walk`.

    Its parts are inlined, and nothing in it is counted by references (`_nrt`): else each call of a part, with all its
    arrays, takes four times as long as its work.
    """
    names = dict(vars(walk))
    names[walk.at.__name__] = _unsigned()
    for part in _PARTS:
        names[part.__name__] = _njit()(_bound(part, names), inline="always", _nrt=False)
    return _kept(_bound(walk.walk, names))


@cache
def compiled_copy() -> Function:
    """The function `copying.copy`."""
    return _kept(copying.copy)


def is_loaded() -> bool:
    """Whether this process has the compiled functions already."""
    return compiled_walk.cache_info().currsize > 0


def _kept(function: Function) -> Function:
    try:
        return _njit()(function, cache=True, nogil=True, _nrt=False)
    except RuntimeError:
        # There is no directory to keep it in.
        return _njit()(function, nogil=True, _nrt=False)


def _njit() -> Callable[..., Function]:
    # Loaded here: it takes longer than many a scan.
    import numba

    found: Callable[..., Function] = numba.njit
    return found


def _unsigned() -> Function:
    """The function `walk.at`: an index that has a sign costs a third of a walk."""
    import numba

    found: Function = _njit()(lambda number: numba.uint64(number), _nrt=False)
    return found


def _bound(function: Callable[..., object], names: dict[str, object]) -> FunctionType:
    """The function with other functions behind the names that it uses."""
    return FunctionType(function.__code__, names, function.__name__)
