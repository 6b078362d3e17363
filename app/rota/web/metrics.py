"""Metrics in the Prometheus text format: process, HTTP by route, leader, database."""

from collections.abc import Iterator

import falcon
from falcon.asgi import Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rota.access.scopes import Gate
from rota.hub import Hub
from rota.secret import Secret
from rota.web.coordination_metrics import CoordinationCollector
from rota.web.endpoint import Answer, endpoint

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """One registry for one process."""

    def __init__(self, hub: Hub) -> None:
        """Measure this hub."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(_HubCollector(hub))
        self.registry.register(CoordinationCollector(hub.together))
        self.watch = hub.together.watch
        self.deliveries = hub.together.deliveries
        self._seconds = Histogram(
            "rota_http_request_seconds",
            "Time from a request's arrival to its answer; its count is the number of requests.",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._known: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count and time one request."""
        key = (method, route, status)
        known = self._known.get(key)
        if known is None:
            # Looked up once, since that is most of the cost: routes, methods and statuses are few.
            known_method = method if method in falcon.HTTP_METHODS else "other"
            known = self._seconds.labels(known_method, route, str(status))
            self._known[(known_method, route, status)] = known
        known.observe(seconds)


class _HubCollector(Collector):
    """Reads the hub's own view when it is asked."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        health, leader = self._hub.health, self._hub.leader
        info = GaugeMetricFamily("rota_build_info", "The program.", labels=["version", "roles"])
        info.add_metric([health.version, ",".join(health.roles)], 1)
        yield info
        held = GaugeMetricFamily("rota_leader_held", "1 for each lock held here.", labels=["task"])
        failing = GaugeMetricFamily("rota_task_failing", "1 for each task that failed here.", labels=["task"])
        epoch = GaugeMetricFamily("rota_leader_epoch", "The epoch led under here.", labels=["task"])
        for task in health.tasks:
            if task in health.residents:
                continue
            held.add_metric([task], task in health.leading)
            failing.add_metric([task], task in health.failing)
            if (number := leader.epoch_of(task)) is not None:
                epoch.add_metric([task], number)
        yield held
        yield failing
        yield epoch
        yield GaugeMetricFamily("rota_leader_sessions_lost", "Lock sessions lost.", value=leader.generation)
        yield GaugeMetricFamily(
            "rota_leader_trust_seconds", "Trust left in the locks.", value=leader.trust_left()
        )
        yield GaugeMetricFamily(
            "rota_database_reachable", "1 while the database answers.", value=health.database.reachable
        )
        yield GaugeMetricFamily(
            "rota_tlog_usable", "1 while the log can be used.", value=not health.tlog.reason
        )
        yield GaugeMetricFamily("rota_tlog_entries", "Entries of the log.", value=health.tlog.size)
        yield GaugeMetricFamily(
            "rota_tlog_published", "Entries of the newest checkpoint.", value=health.tlog.published
        )
        yield GaugeMetricFamily("rota_draining", "1 once told to stop.", value=health.draining)


class MetricsResource:
    """`/metrics`, which is not there unless a token is set."""

    def __init__(self, metrics: Metrics, token: Secret) -> None:
        """Show these metrics to whoever has the token."""
        self._metrics = metrics
        self._token = token

    @endpoint(
        Gate.OWN,
        "Metrics, for the bearer of server.metrics_token",
        answers={200: Answer("The exposition.", media=CONTENT_TYPE_LATEST)},
        limited=False,
    )
    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer the exposition."""
        if not self._token:
            raise falcon.HTTPNotFound
        sent = (req.auth or "").encode("latin-1").decode(errors="replace")  # header bytes come as Latin-1
        scheme, _, given = sent.partition(" ")
        if scheme.casefold() != "bearer" or not self._token.matches(given.strip()):
            raise falcon.HTTPUnauthorized(
                title="Metrics need a token",
                description="Send Authorization: Bearer TOKEN, with the value of server.metrics_token.",
                challenges=['Bearer realm="metrics"'],
            )
        await self._metrics.watch.look()
        await self._metrics.deliveries.look()
        resp.content_type = CONTENT_TYPE_LATEST
        resp.data = generate_latest(self._metrics.registry)
