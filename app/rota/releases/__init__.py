"""Releases of apps: what was built, with which configuration."""
