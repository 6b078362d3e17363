"""The proxy's configuration and its unit's drop-in, in every shape, are what HAProxy and systemd take."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plugins.modules import rota_certificate
from tests.kit.test_units import render as render_unit
from tests.support.haproxy import HUB, PROGRAM, prepared, render

WEB = [{"name": "w1-1", "address": "10.98.0.12:8421"}, {"name": "w2-1", "address": "[fd00::2]:8421"}]
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"haproxy_web": WEB},
    "nobody": {"haproxy_web": []},
    "bound": {"haproxy_web": WEB, "haproxy_bind": ["192.0.2.1", "2001:db8::1"]},
    "private": {"haproxy_web": [{**WEB[0], "here": True}, WEB[1]], "haproxy_private_address": "10.98.0.1"},
    "no apps": {"haproxy_web": WEB, "haproxy_apps": "0", "haproxy_tcp_apps": 0},
    "ports": {"haproxy_web": WEB, "haproxy_http_port": "8080", "haproxy_https_port": "8443"},
}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SHAPES[request.param]


def test_haproxy_understands_every_word(shape: dict[str, Any], tmp_path: Path) -> None:
    certificate = tmp_path / "hub.pem"
    certificate.write_text(rota_certificate.make(HUB))
    path = tmp_path / "haproxy.cfg"
    paths = {
        "_haproxy_certificate": str(certificate),
        "_haproxy_socket": str(tmp_path / "socket"),
        "haproxy_apps_socket": str(tmp_path / "apps.sock"),
        "haproxy_apps_directory": str(prepared(tmp_path / "apps")),
    }
    # The names of root and haproxy are a host's.
    text = render(**shape, **paths).replace("user root group root ", "").replace("user rota group rota ", "")
    path.write_text(re.sub(r"^    (user|group) haproxy\n", "", text, flags=re.MULTILINE))
    argv = [PROGRAM, "-c", "-f", str(path)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("[WARNING]")]
    assert warnings == []


def test_it_listens_everywhere_or_where_it_is_told() -> None:
    def binds(**variables: Any) -> list[str]:
        return [
            " ".join(words[:3])
            for words in re.findall(r"bind (\S+)(?: (v6only))?(?: (ssl))?", render(**variables))
        ]

    assert binds() == ["0.0.0.0:80  ", "[::]:80 v6only ", "0.0.0.0:443  ssl", "[::]:443 v6only ssl"]
    bound = binds(haproxy_bind=["192.0.2.1", "2001:db8::1"])
    assert bound == [
        "192.0.2.1:80  ",
        "[2001:db8::1]:80 v6only ",
        "192.0.2.1:443  ssl",
        "[2001:db8::1]:443 v6only ssl",
    ]


def test_every_server_of_a_room_follows_the_hubs_of_that_name() -> None:
    lines = [line.split() for line in render(haproxy_web=WEB).splitlines() if line.startswith("    server ")]
    assert [line[1:3] for line in lines] == 3 * [["w1-1", "10.98.0.12:8421"], ["w2-1", "[fd00::2]:8421"]]
    assert [line[3:] for line in lines[4:]] == [
        ["track", f"hub/{name}", "cookie", name] for name in ("w1-1", "w2-1")
    ]


def test_root_and_the_worker_alone_give_orders_on_the_host_alone() -> None:
    def sockets(**variables: Any) -> list[str]:
        return re.findall(r"^    stats socket (.*)$", render(**variables), re.MULTILINE)

    root = "/run/haproxy/admin.sock user root group root mode 600 level admin expose-fd listeners"
    assert sockets(haproxy_apps=0, haproxy_tcp_apps=0) == [root]
    assert sockets() == [root, "/run/haproxy/rota-apps.sock user rota group rota mode 600 level admin"]


@pytest.mark.parametrize("tunnel", ["", "wg-quick@rota0.service"])
def test_the_drop_in_puts_rotas_configuration_in_place_and_requires_no_tunnel(tunnel: str) -> None:
    watch = {"certificate": "/c", "configuration": "/etc/haproxy/rota.cfg", "unit": "/u"}
    values = {"configuration": "/etc/haproxy/rota.cfg", "tunnel_unit": tunnel, "watch": watch}
    lines = render_unit("haproxy-rota.conf.j2", values).splitlines()
    # Emptied first: what /etc/default/haproxy says would win.
    assert lines.index("EnvironmentFile=") < lines.index(
        'Environment="CONFIG=/etc/haproxy/rota.cfg" "EXTRAOPTS=-S /run/haproxy-master.sock,mode,600"'
    )
    assert [line for line in lines if "wg-quick" in line] == (
        [f"Wants={tunnel}", f"After={tunnel}"] if tunnel else []
    )
    record = "--into %t/rota/haproxy certificate=/c configuration=/etc/haproxy/rota.cfg unit=/u"
    assert [line.partition("=")[0] for line in lines if line.endswith(record)] == [
        "ExecStartPre",
        "ExecReload",
    ]
