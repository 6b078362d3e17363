"""Lock keys and channels: numbers that every release must agree on."""

import pytest

from rota.coordination.keys import channel, exclusive_key, leader_key


def test_the_keys_are_the_agreed_ones() -> None:
    assert leader_key("public", "flow.scheduler") == 2609528347146266743
    assert leader_key("hub_b", "flow.scheduler") == 8250815787582775482
    assert exclusive_key("public", "autoland:7") == 2279646183042828917


def test_keys_fit_a_signed_bigint_and_use_both_halves() -> None:
    keys = [leader_key("rota", f"task.{number}") for number in range(200)]
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert min(keys) < 0 < max(keys)
    assert len(set(keys)) == len(keys)


def test_two_hubs_in_two_schemas_share_no_lock() -> None:
    assert leader_key("hub_a", "t") != leader_key("hub_b", "t")
    assert exclusive_key("hub_a", "t") != exclusive_key("hub_b", "t")


def test_a_leader_lock_and_an_exclusive_name_are_never_the_same() -> None:
    assert leader_key("public", "t") != exclusive_key("public", "t")


def test_the_parts_of_a_key_do_not_run_together() -> None:
    assert leader_key("a", "bc") != leader_key("ab", "c")


def test_channels_are_apart_by_schema_and_topic() -> None:
    names = {channel(schema, topic) for schema in ("a", "b") for topic in ("leader", "queue")}
    assert len(names) == 4
    assert all(name.startswith("rota_") and name.isidentifier() and name.islower() for name in names)


def test_a_channel_name_is_at_most_63_bytes_whatever_the_schema() -> None:
    assert len(channel("s" * 63, "deliveries").encode()) <= 63
    longest = 63 - len(channel("s", ""))
    assert len(channel("s", "t" * longest)) == 63
    with pytest.raises(ValueError, match="longer than 63 bytes"):
        channel("s", "t" * (longest + 1))
