"""The root helper of a server: standard library only, and nothing of the rest of the program."""
