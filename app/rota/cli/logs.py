"""`rota logs`: an app's output from every server, in one place."""

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import click

SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
AGAIN = 1.0  # seconds until the hub is asked again where a follower lost it


@click.command("logs")
@click.argument("app")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "-n", "--lines", default=100, type=click.IntRange(0, 100_000), help="How many lines.  [default: 100]"
)
@click.option("--type", "process_type", default="", help="Of this process type.")
@click.option("--server", default="", help="From this server.")
@click.option("--instance", default="", help="Of this instance, as shop.web.1.")
@click.option("--release", type=click.IntRange(1), help="Of this release.")
@click.option("--since", default="", metavar="1h", help="Not older: as 90s, 15m, 1h, 2d.")
@click.option("--grep", "contains", default="", metavar="TEXT", help="Lines that hold this text.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(*, app: str, follow: bool, lines: int, since: str, as_json: bool, **asked: Any) -> None:
    """Print what APP has written; control characters are shown and not obeyed."""
    query = {name: value for name, value in asked.items() if value}
    if since:
        query["since"] = (int(time.time()) - seconds(since)) * 1_000_000
    try:
        _show(app, {**query, "count": lines}, follow=follow, as_json=as_json)
    except KeyboardInterrupt:
        sys.exit(130)


def seconds(text: str) -> int:
    """Return how many seconds a span has, as 1h. Raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if not found:
        raise click.UsageError(f"--since {text}: write a number and s, m, h or d, as 1h.")
    return int(found[1]) * SPANS[found[2]]


def _show(app: str, query: dict[str, Any], *, follow: bool, as_json: bool) -> None:
    from rota.artifacts.transfer import Line, RefusedError, TransferError
    from rota.cli.client import target

    hub = target()
    headers = {"Authorization": f"Bearer {hub.token}"} if hub.token else {}
    seen: dict[str, int] = {}
    while True:
        asked = urlencode({**query, "follow": "true" if follow else "false"})
        try:
            with Line(hub.url, lambda *_: headers) as line:
                answer = line.ask("GET", f"/api/apps/{quote(app, safe='')}/logs?{asked}")
                for data in answer:
                    if data.strip():
                        _print(json.loads(data), seen, as_json=as_json)
        except RefusedError:
            raise
        except (TransferError, OSError, ValueError):
            if not follow:
                raise
        if not follow:
            return
        time.sleep(AGAIN)  # the hub restarts: what came meanwhile is among the newest lines
        query = {**query, "count": max(int(query["count"]), 1000)}


def _print(line: dict[str, Any], seen: dict[str, int], *, as_json: bool) -> None:
    key = f"{line['server']}/{line['instance']}@{line['release']}"
    if line["number"] <= seen.get(key, 0):
        return
    seen[key] = line["number"]
    if as_json:
        click.echo(json.dumps(line))
        return
    from rota.cli.client import tell

    at = datetime.fromtimestamp(line["at"] / 1_000_000, UTC)
    head = f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z {line['instance']} v{line['release']} {line['server']} |"
    if line["dropped"]:
        lost = "some" if line["dropped"] < 0 else str(line["dropped"])
        tell(f"{head} … {lost} lines were lost here")
    tell(f"{head} {line['text']}{' … (cut)' if line['cut'] else ''}")
