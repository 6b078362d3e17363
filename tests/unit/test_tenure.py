"""The holder's trust ends before the server's patience does."""

from rota.coordination.tenure import ANSWER, EXPIRY, GONE, JITTER, ROUND, STOP, TRUST, Tenure


def test_a_holder_always_stops_before_the_server_frees_its_locks() -> None:
    assert ROUND + ANSWER <= TRUST
    assert TRUST + STOP + GONE < EXPIRY


def test_rounds_are_only_ever_made_shorter() -> None:
    assert 0 < JITTER < 1


def test_there_is_no_trust_before_a_good_probe_nor_after_the_end() -> None:
    tenure = Tenure()
    assert not tenure.trusted(0.0)
    assert tenure.left(0.0) == 0.0
    tenure.renew(100.0)
    tenure.end()
    assert not tenure.trusted(100.0)
    assert tenure.left(100.0) == 0.0


def test_trust_lasts_from_the_start_of_the_probe() -> None:
    tenure = Tenure()
    tenure.renew(100.0)
    assert tenure.trusted(100.0 + TRUST - 0.001)
    assert not tenure.trusted(100.0 + TRUST)
    assert tenure.left(101.0) == TRUST - 1.0


def test_a_probe_that_started_earlier_takes_no_trust_away() -> None:
    tenure = Tenure()
    tenure.renew(100.0)
    tenure.renew(90.0)
    assert tenure.left(100.0) == TRUST
