"""Roles: how their names are read and reported."""

import pytest

from rota.roles import EVERY_ROLE, Role, in_order, parse_roles


def test_no_name_means_every_role() -> None:
    assert parse_roles([]) == EVERY_ROLE == {Role.WEB, Role.WORKER}


def test_empty_names_are_ignored() -> None:
    assert parse_roles(["", "  ", "worker"]) == {Role.WORKER}


def test_only_empty_names_mean_every_role() -> None:
    assert parse_roles(["", " "]) == EVERY_ROLE


def test_names_are_trimmed_and_case_folded_and_doubles_dropped() -> None:
    assert parse_roles([" Web ", "web", "WEB\t"]) == {Role.WEB}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown") as caught:
        parse_roles(["web", " edge "])
    assert str(caught.value) == 'unknown role "edge": the roles are web and worker'


def test_roles_are_reported_in_one_order() -> None:
    assert in_order([Role.WORKER, Role.WEB, Role.WORKER]) == ["web", "worker"]
