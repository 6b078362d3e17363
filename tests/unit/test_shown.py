"""How values stand on pages."""

import pytest

from rota.web.pages import plain


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("here", "here"),
        ("", "—"),
        (None, "—"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        (["hub:read", "admin"], "hub:read, admin"),
        ([], "—"),
        ({"size": [1]}, '{"size":[1]}'),
    ],
)
def test_a_value_of_json_is_shown_as_people_read_it(value: object, shown: str) -> None:
    assert plain(value) == shown
