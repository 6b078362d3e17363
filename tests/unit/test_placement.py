"""Placement: a property for every rule, over any pool."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ConflictError
from rota.placement.facts import Facts, Placed, ServerFacts, Wish
from rota.placement.placing import explain, place, refuse_unplaced
from rota.placement.rules import RULES, against, near
from rota.wire.statements import Capabilities, Limits, Requires

NAMES = ["p1", "s1", "s2", "s3", "s4", "s5"]
APPS = ["shop", "blog"]
TYPES = ["web", "worker"]
MIB = 1024**2

names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
capabilities = st.builds(
    Capabilities,
    virtualisation=st.booleans(),
    memory=st.sampled_from([512 * MIB, 2048 * MIB]),
    processors=st.integers(1, 4),
    architecture=st.just("x86_64"),
)
requirements = st.builds(
    Requires,
    virtualisation=st.booleans(),
    memory=st.sampled_from([0, 1024 * MIB]),
    processors=st.integers(0, 4),
    storage=st.booleans(),
    database=st.booleans(),
    primary=st.booleans(),
)


def server(name: str) -> st.SearchStrategy[ServerFacts]:
    return st.builds(
        ServerFacts,
        name=st.just(name),
        enrolled=st.sampled_from([True, True, False]),
        lost=st.sampled_from([False, False, True]),
        primary=st.just(name == "p1"),
        capabilities=st.none() | capabilities,
        latency=st.none() | st.integers(0, 10_000),
        ports=st.integers(0, 4),
        apps=st.dictionaries(st.sampled_from(APPS), st.integers(0, 3)),
    )


@st.composite
def pools(draw: st.DrawFn) -> Facts:
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    servers = [draw(server(name)) for name in chosen]
    wishes = []
    for app in APPS:
        requires = draw(requirements)
        holder = draw(st.sampled_from(["", *NAMES])) if requires.storage else ""
        for kind in TYPES:
            use, avoid = draw(names), draw(names)
            wishes += [
                Wish(
                    instance=f"{app}.{kind}.{n}",
                    app=app,
                    process_type=kind,
                    requires=requires,
                    limits=Limits(),
                    use=use,
                    avoid=avoid,
                    holder=holder,
                )
                for n in range(1, draw(st.integers(0, 3)) + 1)
            ]
    return Facts(servers=servers, wishes=wishes, database_latency=draw(st.integers(0, 10)))


def pairs(facts: Facts) -> list[tuple[Wish, Placed, ServerFacts]]:
    """Return each wish that has a server, with the server as it was in the facts."""
    known = {each.name: each for each in facts.servers}
    return [
        (wish, placed, known[placed.server])
        for wish, placed in zip(facts.wishes, place(facts), strict=True)
        if placed.server
    ]


@given(pools())
def test_every_wish_is_answered_once_in_its_order(facts: Facts) -> None:
    """Counts and singletons: what is wished once is placed at most once."""
    assert [each.instance for each in place(facts)] == [wish.instance for wish in facts.wishes]


@given(pools())
def test_nothing_is_placed_where_it_may_not_run(facts: Facts) -> None:
    for wish, _, chosen in pairs(facts):
        assert chosen.enrolled
        assert not chosen.lost
        assert not wish.use or chosen.name in wish.use
        assert chosen.name not in wish.avoid
        assert not wish.requires.storage or not wish.holder or chosen.name == wish.holder
        assert not wish.requires.primary or chosen.primary
        offers = chosen.capabilities
        assert not wish.requires.virtualisation or (offers is not None and offers.virtualisation)
        assert (offers.memory if offers else 0) >= max(wish.requires.memory, wish.limits.memory)
        assert (offers.processors if offers else 0) >= wish.requires.processors


@given(pools())
def test_no_server_gets_more_than_it_has_ports_for(facts: Facts) -> None:
    given_out = [placed.server for _, placed, _ in pairs(facts)]
    for each in facts.servers:
        assert given_out.count(each.name) <= each.ports


@given(pools())
def test_an_app_with_storage_of_its_own_is_on_one_server(facts: Facts) -> None:
    for app in APPS:
        where = {chosen.name for wish, _, chosen in pairs(facts) if wish.app == app and wish.requires.storage}
        assert len(where) <= 1


@given(pools())
def test_what_has_no_server_had_a_reason_against_each(facts: Facts) -> None:
    for placed in place(facts):
        assert [each.server for each in placed.verdicts] == sorted(each.name for each in facts.servers)
        for verdict in placed.verdicts:
            assert bool(verdict.against) == (verdict.rank is None)
            assert verdict.against.keys() <= {*RULES, "database"}
            assert all(verdict.against.values())
        assert bool(placed.server) == any(each.rank == 1 for each in placed.verdicts)
        if not placed.server:
            assert all(each.against for each in placed.verdicts)
            assert all(each.server in explain(placed) for each in placed.verdicts)
            with pytest.raises(ConflictError, match=placed.instance):
                refuse_unplaced([placed])


@given(pools())
def test_near_servers_are_preferred_for_a_database_where_there_is_one(facts: Facts) -> None:
    for wish in facts.wishes:
        (placed,) = place(msgspec.structs.replace(facts, wishes=[wish]))
        able = [each for each in facts.servers if not against(wish, each)]
        close = [each.name for each in able if near(each, facts.database_latency)]
        if wish.requires.database and close:
            assert placed.server in close
        assert bool(placed.server) == bool(able)


@given(pools())
def test_instances_are_spread_and_ties_go_by_name(facts: Facts) -> None:
    for wish in facts.wishes:
        (placed,) = place(msgspec.structs.replace(facts, wishes=[wish]))
        left = [each.server for each in placed.verdicts if each.rank is not None]
        known = {each.name: each for each in facts.servers}
        order = sorted(left, key=lambda name: (known[name].apps.get(wish.app, 0), known[name].total, name))
        assert [placed.server] == (order[:1] or [""])
        ranks = {each.server: each.rank for each in placed.verdicts}
        assert [ranks[name] for name in order] == list(range(1, len(order) + 1))


@given(pools(), st.randoms())
def test_the_same_facts_give_the_same_answer_also_from_the_log(facts: Facts, random: object) -> None:
    again = msgspec.json.decode(msgspec.json.encode(facts), type=Facts)
    shuffled = list(facts.servers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert place(again) == place(facts)
    assert place(msgspec.structs.replace(facts, servers=shuffled)) == place(facts)


def test_equal_servers_share_equally() -> None:
    offers = Capabilities(virtualisation=False, memory=2**33, processors=2, architecture="x86_64")
    servers = [ServerFacts(name=name, capabilities=offers, ports=10) for name in ("s1", "s2", "s3")]
    wishes = [Wish(instance=f"shop.web.{n}", app="shop", process_type="web") for n in range(1, 7)]
    where = [each.server for each in place(Facts(servers=servers, wishes=wishes))]
    assert where == ["s1", "s2", "s3", "s1", "s2", "s3"]
