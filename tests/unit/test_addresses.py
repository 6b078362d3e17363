"""Where an outbound request may go."""

import pytest

from rota.drivers.addresses import networks, refusal

REFUSED = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "0.0.0.0": "this host",  # noqa: S104 - nobody listens there
    "0.1.2.3": "this host",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "shared by a carrier",
    "100.127.255.255": "shared by a carrier",
    "169.254.169.254": "link-local",
    "192.88.99.1": "a tunnel",
    "198.18.0.1": "for benchmarks",
    "224.0.0.1": "multicast",
    "255.255.255.255": "reserved",
    "::": "this host",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::ffff:0:127.0.0.1": "reserved",
    "::127.0.0.1": "reserved",
    "64:ff9b::7f00:1": "a translation of IPv4",
    "64:ff9b:1::7f00:1": "a translation of IPv4",
    "2001:0:1::1": "a tunnel",
    "2002:7f00:1::": "a tunnel",
    "2001:db8::1": "for documentation",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "4000::1": "reserved",
    "5f00::1": "reserved",
}


@pytest.mark.parametrize(("address", "what"), REFUSED.items())
def test_what_is_not_public_is_refused_and_named(address: str, what: str) -> None:
    assert refusal(address, ()) == what


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "100.63.255.255", "172.32.0.1", "::ffff:1.1.1.1", "2606:4700::1111", "2a00::1"]
)
def test_what_is_public_is_not(address: str) -> None:
    assert refusal(address, ()) == ""


def test_an_operator_may_name_networks() -> None:
    allowed = networks(["10.1.0.0/16", "fd00:1::/32"])
    for good in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"):
        assert refusal(good, allowed) == ""
    for bad in ("10.2.0.1", "fd00:2::5", "127.0.0.1"):
        assert refusal(bad, allowed)
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.1.2.3/16"])
