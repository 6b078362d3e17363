"""The first process of an emulated machine: find the disk and the network, then hand over to the agent.

It runs in the kernel's initial file system, with no more of Python's library than is in the program itself,
and is copied there alone, so it imports nothing of ours.
"""

import os
import time

DISK = "/dev/vda"
ROOT = "/root"
AGENT = "/lab-agent.py"
PATIENCE = 60.0  # seconds until a disk must have shown itself, at the speed of a loaded machine


def busybox(*words: str) -> None:
    """Run one of busybox's programs; end, and the machine with us, if it fails."""
    pid = os.posix_spawn("/bin/busybox", ["busybox", *words], {})
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: status {status}")


def mount(kind: str, source: str, target: str, options: str) -> None:
    """Mount a file system."""
    busybox("mount", "-t", kind, "-o", options, source, target)


def told() -> dict[str, str]:
    """Return what the kernel's command line says to us, as ``lab.NAME=VALUE``."""
    with open("/proc/cmdline", encoding="utf-8") as stream:  # noqa: PTH123 - pathlib is not here
        words = stream.read().split()
    return dict(word.removeprefix("lab.").split("=", 1) for word in words if word.startswith("lab."))


def write(name: str, text: str) -> None:
    """Write a file on the machine's disk."""
    with open(f"{ROOT}{name}", "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(text)


def main() -> None:
    """Make the machine; never returns."""
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")):
        mount(kind, kind, target, "rw")
    for module in sorted(os.listdir("/modules")):  # noqa: PTH208
        busybox("insmod", f"/modules/{module}")
    values = told()
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(DISK) and time.monotonic() < deadline:  # noqa: PTH110
        time.sleep(0.05)
    mount("ext4", DISK, "/lower", "ro")
    mount("tmpfs", "tmpfs", "/write", "size=256m")
    for name in ("/write/upper", "/write/work"):
        os.mkdir(name)  # noqa: PTH102
    layers = "lowerdir=/lower,upperdir=/write/upper,workdir=/write/work"
    # An NFS server leads its clients from the root to what it exports, so the root must be fit for that.
    mount("overlay", "overlay", ROOT, f"{layers},index=on,nfs_export=on")
    mount("ext4", "/dev/vdb", f"{ROOT}/srv", "rw")
    busybox("ip", "link", "set", "lo", "up")
    busybox("ip", "link", "set", "eth0", "up")
    busybox("ip", "address", "add", values["address"], "dev", "eth0")
    write("/etc/hostname", f"{values['name']}\n")
    write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {values['name']}\n")
    with open(AGENT, encoding="utf-8") as stream:  # noqa: PTH123
        write(AGENT, stream.read())
    os.execv("/bin/busybox", ["switch_root", ROOT, "/usr/bin/python3", "-I", AGENT])


if __name__ == "__main__":
    main()
