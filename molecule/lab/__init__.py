"""The lab: real systemd hosts, made and thrown away in seconds, for the kit's scenarios.

A *lab* is a switch (a bridge in a network namespace of its own) and any number of hosts on it. A host is a
systemd-nspawn machine on a baked Debian tree, with its own network namespace, cgroup and disk. Nothing of a
lab shows outside: it has no route out, its mounts live in private mount namespaces, and two labs may use the
same addresses. ``molecule/labctl`` is the program; ``molecule/lab/README.md`` says how to use it.

Standard library only: the lab runs with the machine's own Python, before anything is installed.
"""
