"""Artifacts: cut where their content says so, put together again, whole or not to be seen."""

import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.artifact_server import ArtifactServer

from rota.artifacts import room
from rota.artifacts.assembling import Assembly, Span
from rota.artifacts.chunking import LEAST, MOST, Chunk, cut, read, size_of, written
from rota.artifacts.fetching import fetch
from rota.artifacts.measuring import measure
from rota.artifacts.receiving import Receiving
from rota.artifacts.store import ArtifactStore
from rota.artifacts.transfer import TransferError
from rota.errors import BusyError, ConflictError, InputError, MalformedError

MIB = 1 << 20


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 - the same each time


def text(size: int) -> bytes:
    """Return lines as source code has them."""
    lines = (
        b"    value_%d = compute(%d, 'item')\n" % (line, line * 7919 % 1000) for line in range(size // 24)
    )
    return b"".join(lines)[:size]


def chunks_of(data: bytes) -> list[Chunk]:
    return [chunk for chunk, _ in cut(io.BytesIO(data))]


def moved(before: bytes, after: bytes) -> int:
    """Return the bytes that a change moves."""
    known = {chunk.hash for chunk in chunks_of(before)}
    return sum(chunk.size for chunk in chunks_of(after) if chunk.hash not in known)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def kept(store: ArtifactStore, data: bytes) -> str:
    """Put something into a store; return its name."""
    name = blake3(data).hexdigest()
    store.partial(name).write_bytes(data)
    store.publish(store.partial(name), name, chunks_of(data))
    return name


class TestChunks:
    @given(st.binary(max_size=300), st.integers(0, 5 * MIB))
    @settings(max_examples=20, deadline=None)
    def test_together_they_are_the_file(self, end: bytes, size: int) -> None:
        data = noise(size) + end
        parts = [(chunk, bytes(view)) for chunk, view in cut(io.BytesIO(data))]
        assert b"".join(part for _, part in parts) == data
        for chunk, part in parts:
            assert (chunk.hash, chunk.size) == (blake3(part).digest(), len(part))
        assert all(LEAST <= chunk.size <= MOST for chunk, _ in parts[:-1])
        assert read(written([chunk for chunk, _ in parts])) == [chunk for chunk, _ in parts]

    @pytest.mark.parametrize("data", [noise(24 * MIB), text(24 * MIB), bytes(8 * MIB) + noise(8 * MIB)])
    @pytest.mark.parametrize("at", [0, 1_000_000, 5_000_000, 14_000_000])
    @pytest.mark.parametrize(
        "change", [(0, b"one more line\n"), (13, b""), (20, b"a changed line of code\n")]
    )
    def test_a_change_moves_what_lies_near_it(self, data: bytes, at: int, change: tuple[int, bytes]) -> None:
        gone, new = change
        assert moved(data, data[:at] + new + data[at + gone :]) <= MIB

    def test_a_list_that_none_of_ours_can_be_is_refused(self) -> None:
        for wrong in (b"x", written([Chunk(b"x" * 32, 0)]), written([Chunk(b"x" * 32, MOST + 1)])):
            with pytest.raises(MalformedError):
                read(wrong)


class TestStore:
    def test_what_is_kept_is_found_and_read_anew(self, store: ArtifactStore) -> None:
        data = noise(3 * MIB)
        name = kept(store, data)
        assert store.path(name).read_bytes() == data
        assert list(store.all()) == [name]
        assert store.is_whole(name)
        assert store.chunks(name) == chunks_of(data)
        store.path(name).with_name(name + ".chunks").unlink()
        assert store.chunks(name) == chunks_of(data), "the list is only a list"
        store.path(name).chmod(0o600)
        store.path(name).write_bytes(data[:-1] + b"!")
        assert not store.is_whole(name)
        store.remove(name)
        assert not store.holds(name)
        assert store.size() == 0

    @pytest.mark.parametrize("name", ["../../x", "%2e%2e", "", "a" * 63, "A" * 64, "a" * 64 + "\n"])
    def test_what_names_no_artifact_comes_near_no_path(self, store: ArtifactStore, name: str) -> None:
        for attempt in (store.path, store.partial, store.holds, store.remove):
            with pytest.raises(InputError):
                attempt(name)

    def test_what_was_begun_long_ago_is_swept(self, store: ArtifactStore) -> None:
        partial = store.partial("ab" * 32)
        partial.write_bytes(b"x")
        assert store.sweep(3600) == 0
        os.utime(partial, (0, 0))
        assert store.sweep(3600) == 1


class TestAssembly:
    def test_it_takes_what_is_here_and_asks_for_the_rest(self, store: ArtifactStore) -> None:
        old = noise(6 * MIB)
        kept(store, old)
        new = old[: 2 * MIB] + b"a line\n" + old[2 * MIB :]
        with Assembly(store, blake3(new).hexdigest()) as assembly:
            missing = assembly.begin(chunks_of(new))
            assert sum(span.size for span in missing) <= MIB
            for span in missing:
                assembly.write(span.start, new[span.start : span.end])
            path = assembly.finish(chunks_of(new))
        assert path.read_bytes() == new
        assert path.stat().st_mode & 0o777 == 0o440

    def test_what_lies_there_from_an_earlier_try_is_not_asked_for_again(self, store: ArtifactStore) -> None:
        data = noise(4 * MIB)
        name, chunks = blake3(data).hexdigest(), chunks_of(data)
        with Assembly(store, name) as assembly:
            assert assembly.begin(chunks) == [Span(0, len(data))]
            assembly.write(0, data[: 2 * MIB])
        with Assembly(store, name) as assembly:
            (span,) = assembly.begin(chunks)
            assert 2 * MIB - MOST <= span.start <= 2 * MIB
            assert span.end == len(data)

    def test_another_content_than_its_name_says_is_not_kept(self, store: ArtifactStore) -> None:
        data, name = noise(MIB), "ab" * 32
        with Assembly(store, name) as assembly:
            assembly.begin(chunks_of(data))
            assembly.write(0, data)
            with pytest.raises(InputError, match="not the artifact"):
                assembly.finish(chunks_of(data))
        assert not store.holds(name)
        assert not store.partial(name).exists()

    def test_a_damaged_neighbour_is_not_copied_from(self, store: ArtifactStore) -> None:
        old = noise(2 * MIB)
        path = store.path(kept(store, old))
        path.chmod(0o600)
        path.write_bytes(b"?" * len(old))
        with Assembly(store, "ab" * 32) as assembly:
            assert assembly.begin(chunks_of(old)) == [Span(0, len(old))]

    def test_two_at_once_are_told_apart(self, store: ArtifactStore) -> None:
        name = "ab" * 32
        with Assembly(store, name), pytest.raises(BusyError, match="somebody else"), Assembly(store, name):
            pass

    def test_nothing_is_begun_that_will_not_fit(
        self, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(room, "SPARE", 1 << 60)
        with Assembly(store, "ab" * 32) as assembly, pytest.raises(ConflictError, match="no room"):
            assembly.begin(chunks_of(b"data"))
        assert store.partial("ab" * 32).stat().st_size == 0


class TestReceiving:
    def test_a_new_one_is_whole_when_its_last_byte_has_come(self, store: ArtifactStore) -> None:
        data = noise(3 * MIB)
        receiving = Receiving(store, blake3(data).hexdigest())
        wanted = receiving.offer(written(chunks_of(data)))
        assert wanted.missing == (Span(0, len(data)),)
        arrival = receiving.take(0)
        arrival.write([data[:MIB]])
        arrival.write([data[MIB:]])
        assert arrival.end()
        arrival.close()
        assert receiving.offer(b"").complete

    def test_more_than_was_said_is_refused_and_what_nobody_announced(self, store: ArtifactStore) -> None:
        data = noise(MIB)
        receiving = Receiving(store, blake3(data).hexdigest())
        with pytest.raises(ConflictError, match="Nothing was said"):
            receiving.take(0)
        receiving.offer(written(chunks_of(data)))
        arrival = receiving.take(MIB - 1)
        with pytest.raises(InputError, match="ends at"):
            arrival.write([b"xx"])
        arrival.close()
        with pytest.raises(InputError, match="not understood"):
            receiving.offer(b"x")
        with pytest.raises(InputError, match="between"):
            receiving.offer(b"")


class TestFetch:
    @pytest.fixture
    def there(self, tmp_path: Path) -> Iterator[ArtifactServer]:
        with ArtifactServer(ArtifactStore(tmp_path / "there")) as server:
            yield server

    def get(self, store: ArtifactStore, there: ArtifactServer, name: str, size: int) -> Path:
        return fetch(store, there.url, lambda method, target: {"Asked": f"{method} {target}"}, name, size)

    def test_only_what_differs_travels(self, store: ArtifactStore, there: ArtifactServer) -> None:
        old = noise(6 * MIB)
        new = old[: 3 * MIB] + b"one more line\n" + old[3 * MIB :]
        for data in (old, new):
            there.sent = 0
            name = kept(there.store, data)
            assert self.get(store, there, name, len(data)).read_bytes() == data
        assert there.sent <= MIB
        assert there.asked[-1] == f"GET /artifacts/{name}"
        there.close()
        assert self.get(store, there, name, len(new)).exists(), "nothing is asked twice"

    def test_it_goes_on_where_it_was_cut_off(self, store: ArtifactStore, there: ArtifactServer) -> None:
        data = noise(8 * MIB)
        name = kept(there.store, data)
        there.cut_after = 5 * MIB
        assert self.get(store, there, name, len(data)).read_bytes() == data
        assert there.sent <= len(data) + 2 * MOST

    def test_after_too_many_cuts_it_says_so_and_keeps_what_has_come(
        self, store: ArtifactStore, there: ArtifactServer
    ) -> None:
        data = noise(4 * MIB)
        name = kept(there.store, data)
        there.cut_after, there.cuts = MIB // 2, 99
        with pytest.raises(TransferError):
            self.get(store, there, name, len(data))
        assert not store.holds(name)
        assert store.partial(name).exists()

    def test_another_artifact_is_refused_before_anything_is_seen(
        self, store: ArtifactStore, there: ArtifactServer
    ) -> None:
        data = noise(MIB)
        name = kept(there.store, data)
        path = there.store.path(name)
        path.chmod(0o600)
        path.write_bytes(noise(MIB, 2))
        with pytest.raises(TransferError, match="not the artifact"):
            self.get(store, there, name, len(data))
        with pytest.raises(TransferError, match="statement says"):
            self.get(store, there, name, len(data) + 1)
        assert not store.holds(name)
        assert size_of(chunks_of(data)) == len(data)

    def test_nothing_is_asked_for_that_will_not_fit(
        self, store: ArtifactStore, there: ArtifactServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(room, "SPARE", 1 << 60)
        with pytest.raises(ConflictError, match="no room"):
            self.get(store, there, "ab" * 32, MIB)
        assert there.asked == []


def test_a_file_is_measured_whatever_its_size(tmp_path: Path) -> None:
    data = noise(5 * MIB)
    (tmp_path / "file").write_bytes(data)
    found = measure(tmp_path / "file")
    assert (found.hash, found.size) == (blake3(data).hexdigest(), len(data))
    (tmp_path / "file").write_bytes(b"")
    assert measure(tmp_path / "file").chunks == []
