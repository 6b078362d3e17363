"""What builds made: kept once under its hash, moved in chunks."""
