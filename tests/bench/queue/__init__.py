"""The work queue beside named peers: the same jobs, in one run, on one private cluster."""
