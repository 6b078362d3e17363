"""A secret value that shows itself to nobody by accident."""

import hmac


class Secret:
    """Text that prints as `[redacted]`; `reveal()` is the one way to read it."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        """Wrap a value; an empty one means that none was given."""
        self._value = value

    def reveal(self) -> str:
        """Return the value itself, for the one place that uses it."""
        return self._value

    def matches(self, given: str) -> bool:
        """Compare in constant time; an unset secret matches nothing."""
        return bool(self._value) and hmac.compare_digest(self._value.encode(), given.encode())

    def __bool__(self) -> bool:
        """Tell whether a value was given."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare two secrets."""
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self._value)

    def __repr__(self) -> str:
        """Show that there is one, and nothing of it."""
        return "[redacted]" if self._value else "[unset]"

    __str__ = __repr__
