"""Apps' values: sealed at rest, byte for byte the same in the instance."""
