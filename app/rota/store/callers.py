"""Whether those who were let in may still stay: one query for all of them."""

from collections.abc import Collection

import msgspec

from rota.access.principal import Principal
from rota.access.scopes import covers, granted, read_scopes
from rota.store.database import Database


class Callers:
    """Holds callers against their sessions, tokens and accounts as these stand now."""

    def __init__(self, database: Database) -> None:
        """Ask this database."""
        self._database = database

    async def revoked(self, principals: Collection[Principal]) -> set[Principal]:
        """Return those whose session or token is over, or who have fewer scopes than they had."""
        if not principals:
            return set()
        sessions = _json({each.session for each in principals} - {None})
        tokens = _json({each.token for each in principals} - {None})
        rows = await self._database.read(
            lambda tx: tx.all("callers.standing", sessions=sessions, tokens=tokens)
        )
        standing = {
            (row["kind"], row["id"]): granted(read_scopes(row["scopes"]), read_scopes(row["account_scopes"]))
            for row in rows
        }
        return {
            each
            for each in principals
            if (now := standing.get(_key(each))) is None or not covers(now, each.scopes)
        }


def _key(principal: Principal) -> tuple[str, int | None]:
    return ("token", principal.token) if principal.session is None else ("session", principal.session)


def _json(ids: Collection[int | None]) -> str:
    return msgspec.json.encode(list(ids)).decode()
