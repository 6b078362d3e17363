"""Where an outbound request may go: public addresses, and private ones that the operator names. Pure."""

import ipaddress
from collections.abc import Iterable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's special-purpose registries: whatever is not for the whole internet.
_NOT_PUBLIC: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"),
    ("192.88.99.0/24", "a tunnel"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::1/128", "loopback"),
    ("::/128", "this host"),
    ("64:ff9b::/96", "a translation of IPv4"),
    ("64:ff9b:1::/48", "a translation of IPv4"),
    ("2001::/32", "a tunnel"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "a tunnel"),
    ("3fff::/20", "for documentation"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_RANGES = tuple((ipaddress.ip_network(text), what) for text, what in _NOT_PUBLIC)
_GLOBAL = ipaddress.ip_network("2000::/3")  # all of IPv6 that is given out


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of these texts, as 10.1.0.0/16. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def refusal(text: str, allowed: Sequence[Network]) -> str:
    """Return why nothing is sent to an address, as loopback; empty where it may be. Raises ValueError."""
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in allowed):
        return ""
    for network, what in _RANGES:
        if address in network:
            return what
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL:
        return "reserved"
    return ""
