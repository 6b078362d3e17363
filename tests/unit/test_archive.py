"""The backup file: what goes in comes out, and anything else is refused."""

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import pytest
import zstandard
from blake3 import blake3

from rota.backups.archive import FORMAT, Manifest, read_archive, write_archive
from rota.errors import BackupError

HEAD = {"name": "rota-1.tar.zst", "version": "1.2.3", "schema": 1, "database": "sqlite"}
FILES: Mapping[str, bytes] = {
    "database/rota.db": b"the database" * 5,
    "keys/credentials/server-metrics-token": b"secret",
    "settings.json": b"{}",
}

Entry = tuple[str, bytes] | tarfile.TarInfo


def read(path: Path) -> dict[str, bytes]:
    return {member.path: copy.read_bytes() for _, member, copy in read_archive(path)}


def manifest(files: Mapping[str, bytes] = FILES, **changed: object) -> tuple[str, bytes]:
    members = [
        {"path": name, "size": len(data), "blake3": blake3(data).hexdigest()} for name, data in files.items()
    ]
    return "manifest.json", msgspec.json.encode({"format": FORMAT, **HEAD, "members": members, **changed})


def crafted(path: Path, entries: Iterable[Entry]) -> Path:
    """Write a backup by hand, as an attacker or a fault would."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(packed.getvalue()))
    return path


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    path = tmp_path / "rota-1.tar.zst"
    write_archive(path, HEAD, FILES)
    return path


def test_what_goes_in_comes_out(backup: Path) -> None:
    assert read(backup) == FILES
    (head, *_), *_ = read_archive(backup)
    assert isinstance(head, Manifest)
    assert (head.name, head.version, head.schema, head.database) == tuple(HEAD.values())
    assert [member.path for member in head.members] == sorted(FILES)


def test_files_are_copied_from_disk_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 10_000)
    size, digest = write_archive(tmp_path / "b", HEAD, {"database/rota.db": source})
    assert read(tmp_path / "b") == {"database/rota.db": source.read_bytes()}
    assert size == (tmp_path / "b").stat().st_size
    assert digest == blake3((tmp_path / "b").read_bytes()).hexdigest()


def test_it_is_for_its_owner_alone_and_never_written_over_another(backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_archive(backup, HEAD, FILES)


def test_members_are_for_their_owner_alone(backup: Path) -> None:
    with (
        zstandard.open(backup, "rb") as unpacked,
        tarfile.open(fileobj=io.BytesIO(unpacked.read())) as tar,
    ):
        assert {entry.mode for entry in tar} == {0o600}


def test_the_same_content_makes_the_same_bytes(tmp_path: Path, backup: Path) -> None:
    write_archive(tmp_path / "again", HEAD, dict(sorted(FILES.items(), reverse=True)))
    assert (tmp_path / "again").read_bytes() == backup.read_bytes()


def test_a_copy_lives_only_until_the_next_member(backup: Path) -> None:
    copies = [copy for _, _, copy in read_archive(backup)]
    assert not [copy for copy in copies if copy.exists()]


@pytest.mark.parametrize("bit", [0x01, 0x10, 0x80])
def test_a_byte_changed_anywhere_is_found_where_it_changes_anything(
    tmp_path: Path, backup: Path, bit: int
) -> None:
    """A few bits of the packing mean nothing: with them changed, everything still comes out whole."""
    whole = backup.read_bytes()
    found = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= bit
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            assert read(path) == FILES
        except BackupError:
            found += 1
    assert found > 0.95 * len(whole)


def test_an_end_cut_off_anywhere_is_found(tmp_path: Path, backup: Path) -> None:
    whole = backup.read_bytes()
    unnoticed = []
    for length in range(len(whole)):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        try:
            read(path)
            unnoticed.append(length)
        except BackupError:
            pass
    assert unnoticed == []


def test_something_after_the_end_is_found(backup: Path) -> None:
    backup.write_bytes(backup.read_bytes() + b"\0")
    with pytest.raises(BackupError):
        read(backup)


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


ALL = list(FILES.items())
CASES: dict[str, tuple[Callable[[], list[Entry]], str]] = {
    "no manifest": (lambda: [*ALL], "does not begin with a manifest"),
    "manifest not first": (lambda: [ALL[0], manifest(), *ALL[1:]], "does not begin with a manifest"),
    "manifest is a link": (lambda: [link("manifest.json", tarfile.SYMTYPE)], "is not a file|damaged"),
    "manifest is no JSON": (lambda: [("manifest.json", b"{"), *ALL], "is damaged"),
    "manifest of the wrong shape": (lambda: [manifest(members=7), *ALL], "is damaged"),
    "newer format": (
        lambda: [manifest(format=FORMAT + 1), *ALL],
        f"has format {FORMAT + 1}, and this program",
    ),
    "newer format with more in it": (
        lambda: [manifest(format=FORMAT + 1, sealed=True), *ALL],
        f"has format {FORMAT + 1}, and this program reads {FORMAT}: use a newer one",
    ),
    "missing member": (lambda: [manifest(), *ALL[:2]], "lacks settings.json: the backup is damaged"),
    "extra member": (
        lambda: [manifest(), *ALL, ("more", b"")],
        "holds more, which its manifest does not name",
    ),
    "member twice": (lambda: [manifest(), *ALL, ALL[0]], "holds database/rota.db, which its manifest"),
    "changed member": (
        lambda: [manifest(), (ALL[0][0], b"The database" * 5), *ALL[1:]],
        "database/rota.db is not what the manifest says",
    ),
    "longer member": (
        lambda: [manifest(), (ALL[0][0], ALL[0][1] + b"!"), *ALL[1:]],
        "is not what the manifest",
    ),
    "symbolic link": (
        lambda: [manifest(), link("database/rota.db", tarfile.SYMTYPE), *ALL[1:]],
        "does not name as a file",
    ),
    "hard link": (
        lambda: [manifest(), link("database/rota.db", tarfile.LNKTYPE), *ALL[1:]],
        "does not name as a file",
    ),
    "path that leads out": (
        lambda: [manifest({"../../up": b"x"}), ("../../up", b"x")],
        "not a path inside a backup",
    ),
    "absolute path": (lambda: [manifest({"/etc/x": b"x"}), ("/etc/x", b"x")], "not a path inside a backup"),
    "nothing at all": (list, "does not begin with a manifest"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_backup_may_not_hold_is_refused(tmp_path: Path, case: str) -> None:
    entries, reason = CASES[case]
    with pytest.raises(BackupError, match=reason):
        read(crafted(tmp_path / "crafted", entries()))


def test_a_crafted_backup_that_is_right_is_taken(tmp_path: Path) -> None:
    assert read(crafted(tmp_path / "crafted", [manifest(), *ALL])) == FILES


@pytest.mark.parametrize("content", [b"", b"not compressed at all", b"\x28\xb5\x2f\xfd"])
def test_a_file_that_is_no_backup_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(BackupError):
        read(tmp_path / "x")


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="is not there: `rota backup list` shows which are"):
        read(tmp_path / "x")


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="cannot be read") as caught:
        read(tmp_path)
    assert "damaged" not in str(caught.value)
