"""Metrics of what makes one hub of several processes: the event bus, the work queue, the webhooks."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from rota.hub import Coordination
from rota.store.jobs import State


class CoordinationCollector(Collector):
    """Reads what the bus and the worker count, and the last count of the queue."""

    def __init__(self, together: Coordination) -> None:
        """Measure this."""
        self._together = together

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._bus()
        yield from self._queue()
        yield from self._webhooks()

    def _webhooks(self) -> Iterator[Metric]:
        tries = SummaryMetricFamily(
            "rota_webhook_try_seconds", "Tries to deliver made here, by how each ended.", labels=["outcome"]
        )
        for outcome, count in sorted(self._together.tries.count.items()):
            tries.add_metric([outcome], count, self._together.tries.seconds[outcome])
        yield tries
        if self._together.deliveries.known is None:
            return
        deliveries = GaugeMetricFamily("rota_webhook_deliveries", "Deliveries kept.", labels=["state"])
        for state, count in self._together.deliveries.known.items():
            deliveries.add_metric([state], count)
        yield deliveries

    def _bus(self) -> Iterator[Metric]:
        state = self._together.bus.state
        for name, value, text in (
            ("published", state.published, "Events published here."),
            ("heard", state.heard, "Events heard from other processes."),
            ("dropped", state.dropped, "Events dropped for other processes, since too many waited."),
            ("kept", state.kept, "Events that stayed here, since too long for other processes."),
            ("unreadable", state.unreadable, "Events of other processes that could not be read."),
            ("gaps", state.gaps, "Times that events may have been missed."),
        ):
            yield CounterMetricFamily(f"rota_bus_{name}", text, value=value)
        yield GaugeMetricFamily("rota_bus_waiting", "Events that wait to be sent.", value=state.waiting)
        yield GaugeMetricFamily(
            "rota_bus_connected", "1 while the other processes are heard.", value=state.connected
        )
        yield GaugeMetricFamily(
            "rota_bus_database_usage", "Share of the database's notification queue in use.", value=state.usage
        )

    def _queue(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            "rota_queue_attempts", "Jobs taken here, by how it ended.", labels=["kind", "outcome"]
        )
        for (kind, outcome), ended in sorted(self._together.tally.items()):
            attempts.add_metric([kind, outcome], ended)
        yield attempts
        if self._together.watch.known is None:
            return
        jobs = GaugeMetricFamily("rota_queue_jobs", "Jobs on the queue.", labels=["kind", "state"])
        oldest = GaugeMetricFamily(
            "rota_queue_oldest_due_seconds", "For how long the oldest job has been due.", labels=["kind"]
        )
        for count in self._together.watch.known:
            jobs.add_metric([count.kind, count.state], count.jobs)
            if count.state is State.DUE:
                oldest.add_metric([count.kind], count.oldest)
        yield jobs
        yield oldest
