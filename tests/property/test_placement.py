"""Every rule of placement, over facts of any kind."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ConflictError
from rota.placement.facts import Facts, Placed, ServerFacts, Wish
from rota.placement.placing import explain, place, refuse_unplaced
from rota.placement.rules import RULES, near
from rota.wire.statements import Capabilities, Limits, Requires

NAMES = ["a", "b", "c", "d", "e"]
capabilities = st.builds(
    Capabilities,
    virtualisation=st.booleans(),
    memory=st.integers(0, 8).map(lambda gib: gib * 2**30),
    processors=st.integers(1, 8),
    architecture=st.just("x86_64"),
)
servers = st.lists(
    st.builds(
        ServerFacts,
        name=st.sampled_from(NAMES),
        enrolled=st.sampled_from([True, True, False]),
        lost=st.sampled_from([False, False, True]),
        primary=st.booleans(),
        capabilities=st.none() | capabilities,
        latency=st.none() | st.integers(0, 20_000),
        ports=st.integers(0, 3),
        apps=st.dictionaries(st.sampled_from(["shop", "blog"]), st.integers(1, 3)),
    ),
    max_size=5,
    unique_by=lambda server: server.name,
)
requires = st.builds(
    Requires,
    virtualisation=st.booleans(),
    memory=st.integers(0, 4).map(lambda gib: gib * 2**30),
    processors=st.integers(0, 4),
    storage=st.booleans(),
    database=st.booleans(),
    primary=st.sampled_from([False, False, True]),
)
some = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    needs, use, avoid = draw(requires), draw(some), draw(some)
    holder = draw(st.sampled_from(["", *NAMES]))
    count = draw(st.integers(1, 6))
    wishes = [
        Wish(
            instance=f"shop.web.{n}",
            app="shop",
            process_type="web",
            requires=needs,
            limits=Limits(memory=draw(st.sampled_from([0, 2**30]))),
            use=use,
            avoid=avoid,
            holder=holder,
        )
        for n in range(1, count + 1)
    ]
    return Facts(servers=draw(servers), wishes=wishes)


def chosen(given_facts: Facts) -> list[tuple[Wish, ServerFacts, Placed]]:
    by_name = {server.name: server for server in given_facts.servers}
    return [
        (wish, by_name[placed.server], placed)
        for wish, placed in zip(given_facts.wishes, place(given_facts), strict=True)
        if placed.server
    ]


@given(facts())
def test_each_instance_is_placed_once_or_refused_with_a_reason_for_each_server(given_facts: Facts) -> None:
    found = place(given_facts)
    assert [each.instance for each in found] == [wish.instance for wish in given_facts.wishes]
    for placed in found:
        assert sorted(v.server for v in placed.verdicts) == sorted(s.name for s in given_facts.servers)
        for verdict in placed.verdicts:
            assert bool(verdict.against) == (verdict.rank is None)
            assert all(rule in {*RULES, "database"} for rule in verdict.against)
        ranked = [v.server for v in placed.verdicts if v.rank == 1]
        assert ranked == ([placed.server] if placed.server else [])


@given(facts())
def test_no_rule_is_broken(given_facts: Facts) -> None:
    for wish, server, _ in chosen(given_facts):
        assert server.enrolled
        assert not server.lost
        assert not wish.use or server.name in wish.use
        assert server.name not in wish.avoid
        assert not wish.requires.primary or server.primary
        offers = server.capabilities
        assert not wish.requires.virtualisation or (offers and offers.virtualisation)
        assert max(wish.requires.memory, wish.limits.memory) <= (offers.memory if offers else 0)
        assert wish.requires.processors <= (offers.processors if offers else 0)
        assert not (wish.requires.storage and wish.holder) or server.name == wish.holder


@given(facts())
def test_an_app_with_storage_is_on_one_server(given_facts: Facts) -> None:
    on = {server.name for wish, server, _ in chosen(given_facts) if wish.requires.storage}
    assert len(on) <= 1


@given(facts())
def test_with_a_database_only_near_servers_are_taken_where_there_are_any(given_facts: Facts) -> None:
    for wish, server, placed in chosen(given_facts):
        if wish.requires.database and not near(server, given_facts.database_latency):
            assert all("database" not in verdict.against for verdict in placed.verdicts)


@given(facts())
def test_no_port_is_given_twice(given_facts: Facts) -> None:
    taken = [server.name for _, server, _ in chosen(given_facts)]
    for server in given_facts.servers:
        assert taken.count(server.name) <= server.ports


@given(st.integers(1, 9), st.integers(1, 5))
def test_instances_are_spread_evenly_over_equal_servers(count: int, pool: int) -> None:
    offers = Capabilities(virtualisation=False, memory=2**33, processors=2, architecture="x86_64")
    equal = [ServerFacts(name=name, capabilities=offers, ports=100) for name in NAMES[:pool]]
    wishes = [Wish(instance=f"shop.web.{n}", app="shop", process_type="web") for n in range(1, count + 1)]
    found = [placed.server for placed in place(Facts(servers=equal, wishes=wishes))]
    each = [found.count(server.name) for server in equal]
    assert max(each) - min(each) <= 1


def test_ties_are_broken_by_the_app_then_by_all_then_by_name() -> None:
    offers = Capabilities(virtualisation=False, memory=2**33, processors=2, architecture="x86_64")

    def server(name: str, **apps: int) -> ServerFacts:
        return ServerFacts(name=name, capabilities=offers, ports=9, apps=apps)

    def first(*among: ServerFacts) -> str:
        wish = Wish(instance="shop.web.1", app="shop", process_type="web")
        return place(Facts(servers=list(among), wishes=[wish]))[0].server

    assert first(server("a", shop=1), server("b", blog=5)) == "b"
    assert first(server("a", blog=2), server("b", blog=1)) == "b"
    assert first(server("b"), server("a")) == "a"


@given(facts(), st.randoms())
def test_the_same_facts_in_any_order_and_from_the_log_give_the_same_answer(
    given_facts: Facts, random: object
) -> None:
    shuffled = list(given_facts.servers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    read = msgspec.json.decode(msgspec.json.encode(given_facts), type=Facts)
    assert place(given_facts) == place(read) == place(msgspec.structs.replace(given_facts, servers=shuffled))


def test_what_no_server_can_run_is_refused_with_every_reason() -> None:
    offers = Capabilities(virtualisation=False, memory=2**30, processors=1, architecture="x86_64")
    given_facts = Facts(
        servers=[
            ServerFacts(name="s1", capabilities=offers, ports=1),
            ServerFacts(name="s2", lost=True, capabilities=offers, ports=1),
        ],
        wishes=[
            Wish(
                instance="shop.web.1",
                app="shop",
                process_type="web",
                requires=Requires(virtualisation=True, memory=2**31),
            )
        ],
    )
    (placed,) = place(given_facts)
    with pytest.raises(ConflictError, match="No server can run shop") as refused:
        refuse_unplaced([placed])
    for part in ("s1: it has no hardware virtualisation; it has 1024 MiB", "s2: it is lost"):
        assert part in str(refused.value)
    assert explain(Placed(instance="x", server="", verdicts=[])) == "There is no server."
