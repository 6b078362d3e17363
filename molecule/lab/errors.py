"""What the lab says when it cannot do what was asked."""


class LabError(Exception):
    """An error for the operator: what failed, and what to do about it."""
