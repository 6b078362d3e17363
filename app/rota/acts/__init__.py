"""Acts: what changes the platform, each one an entry of the log before it is answered."""
