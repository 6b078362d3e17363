"""Apps' output, from the pipe of an instance to the person who reads it."""
