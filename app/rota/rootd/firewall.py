"""Who may reach instances, and whom instances may reach: one nftables table of rootd's own."""

import json
from ipaddress import ip_address, ip_network
from pathlib import Path

from rota.rootd.fields import RefusedError
from rota.rootd.places import Places, run, write

TABLE = """\
# Kept by Rota's rootd.
table inet rota_apps
delete table inet rota_apps
table inet rota_apps {
  chain input {
    type filter hook input priority filter + 1; policy accept;
    iif lo accept
INWARD
  }
  chain output {
    type filter hook output priority filter + 1; policy accept;
    ct state established,related accept
OUTWARD
  }
}
"""


def addresses(path: Path) -> tuple[str, str, str]:
    """Return the primary's address, the private network if any, and the family: ip or ip6.

    Raises RefusedError where the kit has not said them.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        primary, network = ip_address(values["primary"]), values.get("network") or ""
        family = "ip" if primary.version == 4 else "ip6"  # noqa: PLR2004 - IPv4
        return str(primary), str(ip_network(network)) if network else "", family
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{path} does not say the addresses: apply the kit's role server") from error


def rules(server: tuple[str, str, str], ports: set[int], apps: set[int], admitted: set[int]) -> str:
    """Return the table for the ports of instances, the users of apps, and those who may connect locally."""
    primary, network, family = server
    inward, outward = [], []
    if ports:
        inward = [f"tcp dport {_set(ports)} {family} saddr {primary} accept", f"tcp dport {_set(ports)} drop"]
        outward = [f"oif lo tcp dport {_set(ports)} meta skuid != {_set({0, *admitted})} reject"]
    if apps and network:
        outward.append(f"meta skuid {_set(apps)} {family} daddr {network} reject")
    lines = ("\n".join(f"    {each}" for each in chain) for chain in (inward, outward))
    return TABLE.replace("INWARD", next(lines)).replace("OUTWARD", next(lines))


def apply(places: Places, text: str) -> None:
    """Load the table in one transaction, where it is not what was loaded last, and keep it for the boot."""
    if not places.firewall.is_file() or places.firewall.read_text(encoding="utf-8") != text:
        run(["nft", "--file", "-"], text)
        write(places.firewall, text.encode())


def _set(numbers: set[int]) -> str:
    return f"{{ {', '.join(map(str, sorted(numbers)))} }}"
