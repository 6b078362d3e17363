"""The servers that run apps: enrolled, live, or lost."""
