"""Archives of sources and artifacts: packed alike everywhere, unpacked with suspicion."""
