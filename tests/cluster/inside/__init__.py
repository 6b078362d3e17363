"""Programs that a test runs on a host of the lab, with the host's own Python: standard library only."""
