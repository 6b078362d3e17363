"""Rooms: operators who look at one incident together."""
