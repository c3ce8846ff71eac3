"""Generator of the reference pages in `docs/` (`make docs`). It is not a part of the distributions."""
