"""Measurements: ratios against a named reference, taken in one run on one machine."""
