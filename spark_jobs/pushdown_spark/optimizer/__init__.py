"""The optimizer for queries over several sources: a list of passes, from column pruning to broadcast hints."""
