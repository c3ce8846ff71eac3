"""What the driver of a submitted job does around its query: the exchange with the task, checks, progress, its end."""
