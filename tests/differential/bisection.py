"""Search for the few items of a batch that fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def split_failures(
    items: Sequence[Item],
    run: Callable[[Sequence[Item]], Result],
    errors: type[Exception] | tuple[type[Exception], ...],
) -> tuple[list[Result], list[Item]]:
    """Run all items at once, or in halves if they fail. Return the results of the batches, and items that fail alone.

    If the items fail, the first result is that of no items. If these fail too, this raises their error, because no item
    is the cause.
    """
    results: list[Result] = []
    failures: list[Item] = []
    pending = [items]
    while pending:
        batch = pending.pop()
        try:
            results.append(run(batch))
        except errors:
            if batch is items:
                results.append(run([]))
            middle = len(batch) // 2
            if middle:
                pending += [batch[middle:], batch[:middle]]
            else:
                failures += batch
    return results, failures
