"""Backups: one file with the database, the keys and the settings, published only when whole."""
