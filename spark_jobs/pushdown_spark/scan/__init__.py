"""What every scan has in common: requests, the interface, tasks, limits and metrics."""
