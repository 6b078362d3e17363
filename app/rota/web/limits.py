"""How much one caller may ask of this process: token buckets, a bounded number of them."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network

from rota.access.principal import Principal
from rota.settings.model import Limits
from rota.web.problems import Problem

MOST = 10_000  # buckets of one kind; whoever has not come for longest begins anew
BURST = 20.0  # seconds of requests that may come at once: a page's files, a thousand streams that reconnect
MINUTE = 60.0
ADDRESSES = 3  # as many sign-ins as for one account come from one address: people sit behind one
HOME = 64  # bits of an IPv6 address that one customer of a provider has

Clock = Callable[[], float]


class Buckets:
    """One bucket for each key: `burst` at once, `rate` a second in the long run. A rate of 0 is no limit."""

    def __init__(self, rate: float, burst: float, clock: Clock = time.monotonic) -> None:
        """Begin with every bucket full."""
        self._rate, self._burst, self._clock = rate, burst, clock
        self._kept: OrderedDict[object, tuple[float, float]] = OrderedDict()  # key → (left, as of)

    def take(self, key: object, cost: float = 1.0) -> float:
        """Take from a key's bucket; return 0, or in how many seconds there is enough. Cost 0 only looks."""
        if not self._rate:
            return 0.0
        now = self._clock()
        left, since = self._kept.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        wait = max(0.0, (max(cost, 1.0) - left) / self._rate)
        self._kept[key] = (left if wait else left - cost, now)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return wait

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)


class RateLimits:
    """The limits of one process. Each raises Problem, 429 with Retry-After."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        """Keep to these settings."""
        self._callers = Buckets(limits.caller, limits.caller * BURST, clock)
        self._strangers = Buckets(limits.stranger, limits.stranger * BURST, clock)
        self._names = Buckets(limits.sign_in / MINUTE, limits.sign_in, clock)
        self._doors = Buckets(ADDRESSES * limits.sign_in / MINUTE, ADDRESSES * limits.sign_in, clock)

    def caller(self, principal: Principal) -> None:
        """Count a request of somebody who is signed in, whichever token or session it is."""
        _refuse(self._callers.take(principal.account))

    def stranger(self, address: str) -> None:
        """Count a request of nobody known, from this address."""
        _refuse(self._strangers.take(_home(address)))

    def newcomer(self, address: str) -> None:
        """Refuse to look at what somebody shows where too many from this address showed what was not good."""
        _refuse(self._strangers.take(_home(address), 0.0))

    def sign_in(self, address: str, name: str) -> None:
        """Count a sign-in, by its address and by the account's name.

        Whoever is refused for his address takes nothing from anybody's name.
        """
        _refuse(self._doors.take(_home(address)))
        _refuse(self._names.take(name[:64]))


def _refuse(wait: float) -> None:
    if wait:
        seconds = math.ceil(wait)
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            "Too many requests",
            "This is more than one caller may ask at once.",
            f"Try again in {seconds} s.",
            headers={"Retry-After": str(seconds)},
        )


def _home(address: str) -> str:
    """Return what counts as one address: of IPv6, the network that a customer has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((found, HOME), strict=False)) if isinstance(found, IPv6Address) else address
