"""What the lab would run, and what it reads from the machine: all of it without doing anything."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab import cgroups, hierarchies, images, nspawn, recipe, switch, vm, vm_image, vm_talk
from lab.errors import LabError
from lab.places import Places

HOST = nspawn.Host(lab="a", name="h1", address="10.78.0.11/24", suite="trixie")
HOME = Path("/lab/labs/a/h1")


def test_a_host_on_v2_boots_by_itself() -> None:
    argv = nspawn.argv(HOST, HOME)
    assert argv[0] == "systemd-nspawn"
    assert argv[-1] == "--boot"
    assert "--directory=/lab/labs/a/h1/root" in argv
    assert "--machine=a.h1" in argv
    assert "--network-namespace-path=/run/netns/rota-lab.a.h1" in argv
    assert nspawn.environment(HOST, {})["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] == "1"


def test_a_host_on_v1_boots_through_its_first_process() -> None:
    host = replace(HOST, cgroup="v1")
    argv = nspawn.argv(host, HOME)
    assert argv[-1] == nspawn.FIRST
    assert "--boot" not in argv
    assert nspawn.environment(host, {})["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] == "0"


def test_shared_directories_are_bound() -> None:
    assert "--bind=/srv/a:/srv/b" in nspawn.argv(replace(HOST, binds=("/srv/a:/srv/b",)), HOME)


@pytest.mark.parametrize("bind", ["/srv", "srv:/srv", "/srv:srv", "/srv:/srv:ro", "/no/such/directory:/srv"])
def test_what_shares_no_directory_is_refused(bind: str) -> None:
    with pytest.raises(LabError, match=re.escape(bind.partition(":")[0])):
        nspawn.check_bind(bind)


def test_a_description_reads_back_as_it_was() -> None:
    host = replace(HOST, binds=("/a:/b", "/c:/d"))
    assert nspawn.Host.from_json(host.to_json()) == host
    assert host.ip == "10.78.0.11"


def test_a_switch_needs_an_address_with_room_for_hosts() -> None:
    assert str(switch.network("10.78.0.1/24")) == "10.78.0.1/24"
    for bad in ("10.78.0.1/31", "10.78.0.1", "switch", ""):
        with pytest.raises(LabError, match=r"10\.78\.0\.1/24"):
            switch.network(bad)


def test_a_host_has_an_address_on_its_switch() -> None:
    uplink = switch.network("10.78.0.1/24")
    assert switch.host_address("10.78.0.11", uplink) == "10.78.0.11/24"
    for bad in ("10.78.1.11", "10.78.0.1", "10.78.0.0", "10.78.0.255", "h1"):
        with pytest.raises(LabError):
            switch.host_address(bad, uplink)


def test_an_image_is_named_by_all_that_it_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {recipe.key("trixie", "x86_64"), recipe.key("bookworm", "x86_64"), recipe.key("trixie", "aarch64")}
    for attribute in ("VERSION", "INSTALLED", "ARCHIVED", "ARCHIVED_APART", "DISABLED"):
        value = getattr(recipe, attribute)
        with monkeypatch.context() as changed:
            changed.setattr(recipe, attribute, value + (1 if isinstance(value, int) else ("more",)))
            keys.add(recipe.key("trixie", "x86_64"))
    assert len(keys) == 8
    assert recipe.key("trixie", "x86_64") in keys
    assert all(key.startswith(("trixie-", "bookworm-")) for key in keys)


def test_what_the_kit_installs_is_not_there_before() -> None:
    assert not set(recipe.INSTALLED) & {*recipe.ARCHIVED, *recipe.ARCHIVED_APART}


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(LabError, match="the suites are trixie and bookworm"):
        recipe.suite("sid")


MACHINE = """\
http://mirror.test/debian/|bookworm|main
http://mirror.test/debian/|bookworm|contrib
http://mirror.test/debian/|bookworm-updates|main
http://mirror.test/security/|bookworm-security|main
http://mirror.test/debian/|bookworm-backports|main
http://other.test/tool/|stable|main
"""


def test_sources_of_another_suite_come_from_the_machines_own() -> None:
    assert images.sources(MACHINE, "trixie") == [
        "deb http://mirror.test/debian/ trixie main",
        "deb http://mirror.test/debian/ trixie-updates main",
        "deb http://mirror.test/security/ trixie-security main",
    ]


def test_a_machine_without_debian_sources_leaves_the_choice_open() -> None:
    assert images.sources("http://other.test/tool/|stable|main\n", "trixie") == []
    assert images.bootstrap_argv("trixie", Path("/tree"), [], recipe.INSTALLED)[-2:] == ["trixie", "/tree"]


def test_places_are_below_the_given_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_LAB_ROOT", "/srv/lab")
    assert Places.from_environment().host("a", "h1") == Path("/srv/lab/labs/a/h1")
    monkeypatch.delenv("ROTA_LAB_ROOT")
    assert Places.from_environment().images == Path("/var/lib/rota-lab/images")


@pytest.mark.parametrize("root", ["relative", "/with space", "/with:colon", "/with,comma"])
def test_a_root_that_mounts_cannot_take_is_refused(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.setenv("ROTA_LAB_ROOT", root)
    with pytest.raises(LabError, match="ROTA_LAB_ROOT"):
        Places.from_environment()


MOUNTS = """\
22 1 0:20 / /sys rw - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
OWN = """\
4:memory:/session/7
3:cpu,cpuacct:/
2:name=systemd:/session/7
0::/session/7
"""


def test_a_lab_lies_below_its_maker_only_where_limits_are() -> None:
    bases = {str(h.mount.name): str(h.base) for h in hierarchies.parse(MOUNTS, OWN)}
    assert bases == {
        "cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "memory": "/sys/fs/cgroup/memory/session/7",
        "systemd": "/sys/fs/cgroup/systemd",
        "unified": "/sys/fs/cgroup/unified",
    }


OLD = hierarchies.parse(MOUNTS.replace("cpu,cpuacct", "cpu,pids"), OWN.replace("cpu,cpuacct", "cpu,pids"))
NEW = hierarchies.parse("34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n")


@pytest.mark.parametrize(
    ("wanted", "there", "version"),
    [("v2", OLD, "v2"), ("v1", OLD, "v1"), ("limits", OLD, "v1"), ("v2", NEW, "v2"), ("limits", NEW, "v2")],
)
def test_a_host_has_the_cgroup_version_that_it_needs(
    wanted: str, there: list[hierarchies.Hierarchy], version: str
) -> None:
    assert hierarchies.choose(wanted, there, ["cpu", "io", "memory", "pids"]) == version


@pytest.mark.parametrize(
    ("wanted", "why"),
    [("v1", "are in version 2 or absent"), ("limits", "are absent"), ("v3", "use v2, v1, limits")],
)
def test_a_cgroup_version_that_cannot_be_had_is_refused(wanted: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        hierarchies.choose(wanted, NEW, ["hugetlb"])


@pytest.mark.parametrize(
    ("ids", "is_init"),
    [("812", False), ("812 1", True), ("812 40", False), ("812 40 1", False), ("1", False)],
)
def test_the_first_process_of_a_host_is_known_by_its_two_ids(ids: str, is_init: object) -> None:
    status = f"Name:\tsystemd\nNSpid:\t{ids.replace(' ', chr(9))}\nThreads:\t1\n"
    assert cgroups.is_guest_init(status) is is_init


def test_an_emulated_machine_is_named_by_all_that_it_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {recipe.machine_key("x86_64")}
    for attribute in ("VERSION", "MACHINE_SUITE", "MACHINE_INSTALLED", "MACHINE_MODULES"):
        value = getattr(recipe, attribute)
        more = {int: 1, str: "more", tuple: ("more",)}[type(value)]
        with monkeypatch.context() as changed:
            changed.setattr(recipe, attribute, value + more)
            keys.add(recipe.machine_key("x86_64"))
    assert len(keys) == 5
    assert all(key.startswith("vm-") for key in keys)
    with pytest.raises(LabError, match="this is aarch64"):
        recipe.machine_key("aarch64")


def test_an_emulated_machine_is_plugged_into_its_port_and_cannot_write_its_image() -> None:
    argv = vm.qemu_argv(vm.Machine("a", "n1", "10.78.0.21/24"), Path("/image"), Path("/home"))
    assert argv[0] == "qemu-system-x86_64"
    assert "tap,id=net,ifname=p-n1,script=no,downscript=no" in argv
    assert "file=/image/root.img,if=none,id=root,format=raw,readonly=on" in argv
    assert argv[argv.index("-append") + 1].endswith("lab.name=n1 lab.address=10.78.0.21/24")
    assert "virtio-net-pci,netdev=net,mac=52:54:0a:4e:00:15" in argv


def test_the_kernel_is_given_whole_directories_and_aligned_files() -> None:
    archive = vm_image.archive([vm_image.Entry("a/b/c", 0o100644, b"12345"), vm_image.Entry("a/d", 0o40755)])
    assert len(archive) % 4 == 0
    names = [name for name in (b"a", b"a/b", b"a/b/c", b"a/d", b"TRAILER!!!") if name + b"\0" in archive]
    assert len(names) == archive.count(b"070701") == 5
    assert archive.index(b"12345") % 4 == 0
    assert vm_image.padded(b"12345") == b"12345\0\0\0"


def test_a_command_for_a_machine_goes_whole() -> None:
    words = vm_talk.argv("10.78.0.21", "tee", "--append", "/a b", text=Path("/input"))
    assert words[1:] == ["vm", "talk", "--input=/input", "10.78.0.21", "--", "tee", "--append", "/a b"]
    assert vm_talk.argv("10.78.0.21")[1:] == ["vm", "talk", "10.78.0.21"]
