"""What the program says to, and hears from, the system around it."""
