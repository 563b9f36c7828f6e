"""Counters of one hub process, as Prometheus reads them (protocol.md §4.9, `/metrics`).

Counting is adding to a plain integer: a lock and a label lookup per event would cost more than what
they count. The registry is the hub's own and asks for the numbers when it is read.
"""

from __future__ import annotations

from asyncio import all_tasks
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """What one hub process has done.

    Attributes:
        requests: finished requests, by (route, method, status).
        refused: problem answers, by code.
        published: events stored or passed on, by catalog.
        duplicates: events that were known already.
        schema_mismatch: events that do not fit their catalog's schema and were taken, by catalog.
        scans_refused: reads turned away because too many were going on.
        gauges: name → (help, function that tells the value now); others put theirs in.
        counters: name → (help, function that tells the count so far); the same.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.refused: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self.duplicates = 0
        self.schema_mismatch: Counter[str] = Counter()
        self.scans_refused = 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "tasks": ("Tasks of the event loop: a leak shows here.", lambda: len(all_tasks())),
        }
        self.counters: dict[str, tuple[str, Callable[[], float]]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all numbers in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Give the registry the numbers of this moment."""
        requests = CounterMetricFamily(
            "sessionwire_http_requests",
            "Finished HTTP requests.",
            labels=("route", "method", "status"),
        )
        for (route, method, status), count in self.requests.items():
            requests.add_metric((route, method, str(status)), count)
        yield requests
        yield _counter("refused", "Problem answers by code.", "code", self.refused)
        yield _counter("published_events", "Events published.", "catalog", self.published)
        yield _counter(
            "schema_mismatch",
            "Events taken that do not fit their catalog's schema.",
            "catalog",
            self.schema_mismatch,
        )
        plain: dict[str, tuple[str, Callable[[], float]]] = {
            "duplicate_events": ("Events published again.", lambda: self.duplicates),
            "scans_refused": ("Reads refused as busy.", lambda: self.scans_refused),
            **self.counters,
        }
        for name, (text, count_of) in plain.items():
            yield CounterMetricFamily(f"sessionwire_{name}", text, value=count_of())
        for name, (text, value_of) in self.gauges.items():
            yield GaugeMetricFamily(f"sessionwire_{name}", text, value=value_of())


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"sessionwire_{name}", text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family
