"""What every scan has in common: the interface, tasks, limits, metrics and advice."""
