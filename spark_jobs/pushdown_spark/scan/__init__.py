"""What scans of all formats share: their interface, partition pruning, tasks, unions, counts and advice."""
