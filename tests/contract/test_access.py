"""Accounts, sessions and tokens, on both kinds of database."""

import asyncio
from datetime import timedelta

import pytest
from tests.support import access, sql
from tests.support.tlog_hub import lead

from rota.access.principal import Principal
from rota.access.scopes import Scope
from rota.errors import ConflictError, NotFoundError
from rota.settings import Settings
from rota.store.accounts import Account, Accounts, Change
from rota.store.callers import Callers
from rota.store.database import Database
from rota.store.sessions import IDLE, Sessions
from rota.store.tlog import Outbox
from rota.store.tokens import Tokens

READ, ADMIN = Scope.HUB_READ, Scope.ADMIN
LONG_AGO = 1_000_000  # microseconds since 1970


def age(settings: Settings, table: str, column: str) -> None:
    """Date a column of every row back to 1970."""
    value = LONG_AGO if settings.sqlite else "1970-01-01T00:00:01+00"
    sql.run(settings, f"UPDATE {table} SET {column} = ?", value)  # noqa: S608 - names of this file


class TestAccounts:
    async def test_one_is_made_once_and_its_act_with_it(self, database: Database) -> None:
        accounts = Accounts(database)
        made = await accounts.create("ada", "hash", [ADMIN, READ], b"act 1")
        with pytest.raises(ConflictError, match="an account ada already"):
            await accounts.create("ada", "other", [READ], b"act 2")
        (found,) = await accounts.all()
        assert found == await accounts.find("ada")
        assert found == Account(
            made, "ada", frozenset({ADMIN, READ}), disabled=False, created_at=found.created_at
        )
        assert await accounts.password("ada") == "hash"
        assert [each.entry for each in await Outbox(database).waiting(9)] == [b"act 1"]

    async def test_of_many_at_once_one_wins(self, database: Database) -> None:
        accounts = Accounts(database)
        tries = (accounts.create("ada", str(number), [READ]) for number in range(4))
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert sorted(type(each).__name__ for each in ended) == ["ConflictError"] * 3 + ["int"]

    async def test_a_change_leaves_the_rest_as_it_was(self, database: Database) -> None:
        accounts = Accounts(database)
        await accounts.create("ada", "hash", [READ])
        await accounts.change("ada", Change(scopes=[]))
        await accounts.change("ada", Change(disabled=True))
        found = await accounts.find("ada")
        assert (found.scopes, found.disabled) == (frozenset(), True)
        assert await accounts.password("ada") is None, "it may not sign in"
        await accounts.change("ada", Change(disabled=False, password="new"), b"act")
        assert await accounts.password("ada") == "new"
        assert len(await Outbox(database).waiting(9)) == 1

    async def test_somebody_is_left_who_may_do_everything(self, database: Database) -> None:
        accounts = Accounts(database)
        for name in ("ada", "grace"):
            await accounts.create(name, "hash", [ADMIN])
        changes = (Change(disabled=True), Change(scopes=[READ]))
        ended = await asyncio.gather(
            *(accounts.change(name, change) for name, change in zip(("ada", "grace"), changes, strict=True)),
            return_exceptions=True,
        )
        assert sorted(type(each).__name__ for each in ended) == ["ConflictError", "NoneType"]
        assert sum(ADMIN in each.scopes and not each.disabled for each in await accounts.all()) == 1

    async def test_nobody_is_changed_nor_found(self, database: Database) -> None:
        accounts = Accounts(database)
        for call in (accounts.find("ada"), accounts.change("ada", Change(disabled=True), b"act")):
            with pytest.raises(NotFoundError, match="no account ada"):
                await call
        assert await accounts.password("ada") is None
        assert await Outbox(database).waiting(9) == []

    async def test_a_new_password_ends_the_other_sessions(self, database: Database) -> None:
        account, sessions = await access.new_account(database, READ, name="ada"), Sessions(database)
        await sessions.begin(account, "here")
        await sessions.begin(account, "there")
        kept = await sessions.caller("here")
        assert kept is not None
        await Accounts(database).change("ada", Change(password="new"), kept_session=kept.session)
        assert await sessions.caller("here") == kept
        assert await sessions.caller("there") is None


class TestSessions:
    @pytest.mark.parametrize("change", [Change(password="new"), Change(disabled=True)])
    async def test_a_sign_in_that_was_under_way_does_not_outlive_the_change_that_ended_the_others(
        self, database: Database, change: Change
    ) -> None:
        sessions, accounts = Sessions(database), Accounts(database)
        account = await accounts.create("ada", "old", [READ])
        assert await sessions.begin(account, "first", "old")
        await accounts.change("ada", change)
        with pytest.raises(ConflictError, match="changed at this very moment"):
            await sessions.begin(account, "second", "old")
        await accounts.change("ada", Change(disabled=False))
        assert await sessions.caller("first") is None
        assert await sessions.caller("second") is None

    async def test_one_is_known_by_its_cookie_until_it_ends(self, database: Database) -> None:
        sessions = Sessions(database)
        account = await access.new_account(database, READ, name="ada")
        number = await sessions.begin(account, "cookie")
        assert await sessions.caller("cookie") == Principal(account, "ada", frozenset({READ}), session=number)
        for wrong in ("Cookie", "cookie ", ""):
            assert await sessions.caller(wrong) is None
        await sessions.finish(number)
        assert await sessions.caller("cookie") is None

    async def test_one_that_is_used_lives_on_and_one_that_is_not_is_over(
        self, database: Database, settings: Settings
    ) -> None:
        sessions = Sessions(database)
        cookie = await access.new_session(database, READ)
        (before,) = sql.run(settings, "SELECT expires_at FROM sessions")
        assert await sessions.caller(cookie)
        assert sql.run(settings, "SELECT expires_at FROM sessions") == [before], "not noted at every request"
        age(settings, "sessions", "seen_at")
        assert await sessions.caller(cookie)
        ((seen, expires),) = sql.run(settings, "SELECT seen_at, expires_at FROM sessions")
        left = (expires - seen) / 1_000_000 if settings.sqlite else (expires - seen).total_seconds()
        assert left == pytest.approx(IDLE, abs=1)
        age(settings, "sessions", "expires_at")
        assert await sessions.caller(cookie) is None
        assert await sessions.prune(await lead(database)) == 1

    async def test_the_database_keeps_no_cookie(self, database: Database, settings: Settings) -> None:
        cookie = await access.new_session(database, READ)
        assert cookie not in str(sql.run(settings, "SELECT * FROM sessions"))


class TestTokens:
    async def test_one_has_the_scopes_of_its_own_that_its_account_still_has(self, database: Database) -> None:
        tokens = Tokens(database)
        await access.new_account(database, ADMIN)
        account = await access.new_account(database, READ, Scope.QUEUE_READ, name="ada")
        number = await tokens.create(account, "ci", "secret", [READ])
        assert await tokens.caller("secret") == Principal(
            account,
            "ada",
            frozenset({READ}),
            token=number,
            token_name="ci",
        )
        await Accounts(database).change("ada", Change(scopes=[ADMIN]))
        known = await tokens.caller("secret")
        assert known is not None
        assert known.scopes == {READ}
        await Accounts(database).change("ada", Change(scopes=[Scope.QUEUE_READ]))
        known = await tokens.caller("secret")
        assert known is not None
        assert known.scopes == frozenset()

    async def test_a_name_is_free_again_once_it_is_revoked(self, database: Database) -> None:
        tokens = Tokens(database)
        account = await access.new_account(database, READ)
        first = await tokens.create(account, "ci", "one", [READ])
        with pytest.raises(ConflictError, match="a token ci already"):
            await tokens.create(account, "ci", "two", [READ])
        assert await tokens.revoke(first)
        assert not await tokens.revoke(first)
        assert await tokens.caller("one") is None
        await tokens.create(account, "ci", "two", [READ])
        assert [(each.name, each.state) for each in await tokens.all(account)] == [
            ("ci", "good"),
            ("ci", "revoked"),
        ]

    async def test_one_that_expires_is_good_until_then(self, database: Database, settings: Settings) -> None:
        tokens = Tokens(database)
        account = await access.new_account(database, READ)
        number = await tokens.create(account, "ci", "secret", [READ], seconds=60)
        found = await tokens.find(number)
        assert found.expires_at is not None
        assert found.expires_at - found.created_at < timedelta(seconds=61)
        assert (found.used_at, found.state) == (None, "good")
        assert await tokens.caller("secret")
        assert (await tokens.find(number)).used_at is not None
        age(settings, "api_tokens", "expires_at")
        assert await tokens.caller("secret") is None
        assert (await tokens.find(number)).state == "expired"
        assert await tokens.prune(await lead(database), 30) == 1

    async def test_one_of_another_is_not_found(self, database: Database) -> None:
        tokens = Tokens(database)
        one, other = [await access.new_account(database, READ) for _ in range(2)]
        number = await tokens.create(one, "ci", "secret", [READ])
        assert (await tokens.find(number, one)).id == number
        with pytest.raises(NotFoundError, match=f"no token {number}"):
            await tokens.find(number, other)
        assert await tokens.all(other) == []
        assert len(await tokens.all()) == 1
        assert await tokens.prune(await lead(database), -1) == 0

    async def test_the_database_keeps_no_secret(self, database: Database, settings: Settings) -> None:
        secret = await access.new_bearer(database, READ)
        assert secret not in str(sql.run(settings, "SELECT * FROM api_tokens"))


class TestStanding:
    async def test_all_stay_who_may(self, database: Database) -> None:
        here = await principals(database)
        assert await Callers(database).revoked(here) == set()
        assert await Callers(database).revoked([]) == set()

    async def test_nobody_stays_who_was_ended_revoked_expired_disabled_or_lowered(
        self, database: Database, settings: Settings
    ) -> None:
        by_session, by_token, lowered, disabled, expired = here = await principals(database)
        await Sessions(database).finish(by_session.session or 0)
        await Tokens(database).revoke(by_token.token or 0)
        await Accounts(database).change(lowered.name, Change(scopes=[Scope.QUEUE_READ]))
        await Accounts(database).change(disabled.name, Change(disabled=True))
        assert await Callers(database).revoked(here) == {by_session, by_token, lowered, disabled}
        age(settings, "api_tokens", "expires_at")
        assert await Callers(database).revoked([expired]) == {expired}

    async def test_one_without_a_scope_is_revoked_too(self, database: Database) -> None:
        cookie = await access.new_session(database)
        nobody = await Sessions(database).caller(cookie)
        assert nobody is not None
        await Sessions(database).finish(nobody.session or 0)
        assert await Callers(database).revoked([nobody]) == {nobody}


async def principals(database: Database) -> list[Principal]:
    """Give callers of accounts of their own: the first and the third by a session, the others by a token."""
    sessions, tokens, found = Sessions(database), Tokens(database), []
    for number in range(5):
        if number % 2:
            found.append(await tokens.caller(await access.new_bearer(database, READ)))
        else:
            found.append(await sessions.caller(await access.new_session(database, READ)))
    # The last of them by a token after all.
    found[4] = await tokens.caller(await access.new_bearer(database, READ))
    return [each for each in found if each is not None]
