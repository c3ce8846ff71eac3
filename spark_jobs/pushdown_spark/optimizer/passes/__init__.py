"""The passes, one in each module. `PASSES` in `optimizer.py` has their order."""
