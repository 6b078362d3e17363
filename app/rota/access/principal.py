"""Who is asking: an account, by a session of a browser or by an API token."""

from dataclasses import dataclass

from rota.access.scopes import Gate, Needs, Scope, covers


@dataclass(frozen=True)
class Principal:
    """One signed-in caller. Exactly one of `session` and `token` is the id of the row that says so.

    `scopes` are those of the account, for a token those it has of them.
    """

    account: int
    name: str
    scopes: frozenset[Scope]
    session: int | None = None
    token: int | None = None
    token_name: str = ""

    @property
    def actor(self) -> str:
        """Return how an act names this caller."""
        if self.token is None:
            return f"account:{self.name}"
        return f"token:{self.name}/{self.token_name}"

    def may(self, needs: Needs) -> bool:
        """Tell whether a route with these needs is open to this caller."""
        return isinstance(needs, Gate) or covers(self.scopes, (needs,))
