"""Metrics of the streams of live pages."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rota.web.streams import Streams


class LiveCollector(Collector):
    """Reads what the streams of this process count."""

    def __init__(self, streams: Streams) -> None:
        """Measure these."""
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        counts = self._streams.counts
        yield GaugeMetricFamily("rota_live_streams", "Streams that are open.", value=len(self._streams))
        for name, value, text in (
            ("sent", counts.sent, "Events put into streams."),
            ("dropped", counts.dropped, "Clients dropped since they did not keep up."),
            ("reloads", counts.reloads, "Clients told to read everything again."),
            ("revoked", counts.revoked, "Streams ended since their token or session was over."),
        ):
            yield CounterMetricFamily(f"rota_live_{name}", text, value=value)
