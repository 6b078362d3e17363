"""Who does what, once: leader locks and their epochs."""
