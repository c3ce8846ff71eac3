"""The exchange of files between a task and its driver."""
