"""The program on each server: takes orders, reports, and has no rights of its own."""
