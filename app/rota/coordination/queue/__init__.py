"""The work queue: jobs that any worker takes, that are never lost, and that finish once."""
