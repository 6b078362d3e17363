"""Host names, prepared servers and the gate's tokens: what is pure of routing."""

import json
from base64 import urlsafe_b64decode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ConflictError, InputError
from rota.routing.gate import Pass, gate_keys, sign
from rota.routing.names import LONGEST, host_name, shown
from rota.routing.runtime import read_map, read_slots, written_map, written_states
from rota.routing.slots import Slot, plan
from rota.routing.table import AppRoutes, Target
from rota.settings import Settings

GOOD = {
    "shop.example": "shop.example",
    "SHOP.Example.": "shop.example",
    "shop.example:443": "shop.example",
    "shop.example.:8443": "shop.example",
    "localhost": "localhost",
    "bücher.example": "xn--bcher-kva.example",
    "BÜCHER.example": "xn--bcher-kva.example",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "例え.テスト": "xn--r8jz45g.xn--zckzah",
    "shop。example": "shop.example",
    "a-b.c1.example": "a-b.c1.example",
}
BAD = [
    "",
    ".",
    "..",
    "a..b",
    ".example",
    "*.example",
    "shop_1.example",
    "-shop.example",
    "shop-.example",
    "127.0.0.1",
    "1.2.3.0x4",
    "[::1]",
    "::1",
    "shop.example:port",
    "shop.example/",
    "https://shop.example",
    "shop example",
    "shop.example\n",
    "shop.example\r\nHost: evil",
    "shop.example|7",
    "shop.example;shutdown",
    "shop\0.example",
    "xn--a.example",
    "a" * 64 + ".example",
    ".".join(["a" * 60] * 5),
    "\u202eshop.example",
    "shop\u200b.example",
]


class TestNames:
    @pytest.mark.parametrize("given", GOOD)
    def test_every_way_to_write_one_becomes_the_one(self, given: str) -> None:
        assert host_name(given) == GOOD[given]

    @pytest.mark.parametrize("given", BAD)
    def test_what_is_none_is_refused(self, given: str) -> None:
        with pytest.raises(InputError, match="no name of a host"):
            host_name(given)

    @given(st.text(max_size=300))
    def test_whatever_comes_is_a_safe_key_or_refused(self, text: str) -> None:
        try:
            name = host_name(text)
        except InputError:
            return
        assert name.isascii()
        assert len(name) <= LONGEST
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert host_name(name) == name
        assert host_name(f"{name.upper()}.:443") == name

    def test_people_read_it_as_they_wrote_it(self) -> None:
        assert shown("xn--bcher-kva.example") == "bücher.example"
        assert shown("shop.example") == "shop.example"


names = st.sampled_from(["a", "b", "c", "d"])
targets = st.builds(
    Target,
    copy=st.just("x.web.1@1"),
    server=st.just("s1"),
    address=st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]),
    port=st.integers(1, 4),
    standby=st.booleans(),
)
wishes = st.dictionaries(
    names,
    st.tuples(st.frozensets(targets, max_size=4), st.sampled_from(["", "/up"])),
).map(
    lambda found: [
        AppRoutes(app=app, targets=tuple(own), health_path=path) for app, (own, path) in sorted(found.items())
    ]
)


def pool(apps: int = 3, tcp: int = 2, slots: int = 3, standbys: int = 2) -> list[Slot]:
    backends = [*(f"app_{n + 1}" for n in range(apps)), *(f"tcp_{n + 1}" for n in range(tcp))]
    own = [*(f"s{n + 1}" for n in range(slots)), *(f"b{n + 1}" for n in range(standbys))]
    return [Slot(backend, name) for backend in backends for name in own]


class TestSlots:
    @given(st.lists(wishes, max_size=8))
    def test_each_app_has_exactly_its_targets_or_a_reason(self, series: list[list[AppRoutes]]) -> None:
        slots, known = pool(), dict[str, str]()
        for wanted in series:
            before = {app: backend for backend, app in known.items()}
            found = plan(slots, known, wanted)
            leads: dict[str, list[tuple[str, int, bool]]] = {}
            for slot in found.slots:
                if slot.ready:
                    leads.setdefault(slot.backend, []).append(slot.target)
            for routes in wanted:
                if routes.app in found.refused:
                    continue
                (backend,) = [backend for backend, app in found.apps.items() if app == routes.app]
                assert backend.startswith("app_" if routes.health_path else "tcp_")
                assert sorted(leads.get(backend, [])) == sorted(
                    {(each.address, each.port, each.standby) for each in routes.targets}
                )
            for app in found.refused:
                if app in before:
                    same = [slot for slot in slots if slot.backend == before[app] and slot.ready]
                    assert [
                        slot for slot in found.slots if slot.backend == before[app] and slot.ready
                    ] == same
            assert set(leads) <= set(found.apps)
            # Nothing that takes requests is turned elsewhere: it stops, and another begins.
            assert not {(s.backend, s.name) for s in found.into} & {
                (s.backend, s.name) for s in slots if s.ready
            }
            again = plan(found.slots, found.apps, wanted)
            assert (again.into, again.out) == ((), ()) or found.refused
            slots, known = list(found.slots), dict(found.apps)

    def test_an_app_keeps_its_backend_and_what_leads_right_stays(self) -> None:
        wanted = AppRoutes(app="b", targets=(_target(1), _target(2)), health_path="/")
        first = plan(pool(), {}, [replace(wanted, app="a"), wanted])
        assert first.apps == {"app_1": "a", "app_2": "b"}
        then = plan(first.slots, first.apps, [replace(wanted, targets=(_target(2), _target(3)))])
        assert then.apps == {"app_2": "b"}
        assert [(slot.name, slot.port) for slot in then.into] == [("s3", 3)]
        assert [(slot.backend, slot.name) for slot in then.out] == [
            ("app_1", "s1"),
            ("app_1", "s2"),
            ("app_2", "s1"),
        ]


def _target(port: int, **rest: object) -> Target:
    return Target(copy="x", server="s", address="10.0.0.1", port=port, **rest)  # type: ignore[arg-type]


class TestFormats:
    def test_states_are_written_as_they_are_read(self) -> None:
        ready = [
            Slot("app_1", "s1", "10.0.0.1", 20000, ready=True, place=(4, 1)),
            Slot("tcp_2", "b1", "fd00::1", 1, ready=True),
        ]
        assert read_slots(written_states([*ready, Slot("app_1", "s2")])) == ready

    def test_a_map_is_read_from_its_file_and_from_what_the_proxy_shows(self) -> None:
        entries = {"b.example": "app_1|7", "a.example": "app_2"}
        assert written_map(entries) == "a.example app_2\nb.example app_1|7\n"
        assert read_map(written_map(entries)) == entries
        assert read_map("0x55d0 b.example app_1|7\n0x55d1 a.example app_2\n") == entries


class TestTokens:
    def test_a_token_says_who_where_and_how_long(self) -> None:
        token = sign(Pass("id1", "ada", "shop.example", 7, 1_800_000_000), "k" * 43)
        header, claims, _ = (part + "=" * (-len(part) % 4) for part in token.split("."))
        assert json.loads(urlsafe_b64decode(header)) == {"alg": "HS256", "typ": "JWT"}
        assert json.loads(urlsafe_b64decode(claims)) == {
            "sub": "ada",
            "aud": "shop.example",
            "gate": "7",
            "jti": "id1",
            "exp": 1_800_000_000,
        }

    def test_a_cluster_without_a_key_says_so_and_one_machine_makes_its_own(self, settings: Settings) -> None:
        if settings.sqlite:
            assert gate_keys(settings) == gate_keys(settings)
            return
        with pytest.raises(ConflictError, match="no key"):
            gate_keys(settings)
