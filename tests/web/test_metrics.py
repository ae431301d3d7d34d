"""Metrics as Prometheus reads them, and the page over HTTP, without a browser."""

import math

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="metrics need hilrt[web]")

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from hilrt.monitor.stream import Full, binary
from hilrt.web.server import SessionCollector, make_server
from hilrt.web.shared_session import SharedSession, SignalHistory
from tests.web.views import LATE, RUNNING, StillViewer


def metrics(viewer, collector=None):
    registry = CollectorRegistry()
    registry.register(collector or SessionCollector(viewer, SignalHistory()))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_are_those_of_the_status():
    viewer = StillViewer(RUNNING, [LATE])
    found = metrics(viewer)
    assert found["hilrt_up",] == 1.0
    assert found["hilrt_state", "RUNNING"] == 1.0
    assert found["hilrt_state", "FAULT"] == 0.0
    assert found["hilrt_missed_ticks_total",] == 3.0
    assert found["hilrt_rate_hertz",] == 999.4
    assert found["hilrt_flags", "sample_late"] == 1.0
    assert found["hilrt_late_samples_total", "vehicle"] == 12.0
    assert found["hilrt_dropped_samples_total", "engine"] == 4.0
    assert found["hilrt_bond_energy_joules", "shaft", "tracking"] == 120.0
    viewer.now_s += 10.0
    assert metrics(viewer)["hilrt_up",] == 0.0
    viewer.close()


def test_lateness_of_every_tick_is_counted():
    """A scrape in a minute sees what was late just after the one before."""
    viewer, history = StillViewer(RUNNING), SignalHistory()
    collector = SessionCollector(viewer, history)
    late = [55.0, math.nan, 99.0, 20_001.0]

    def ticks(times):
        for first in range(0, times, 100):
            t, value = np.arange(first, first + 100) * 1e-3, np.resize(late, 100)
            data = {"t": binary(t), "value": binary(value)}
            history.add_full(Full(number=1, name="master:lateness", **data))

    ticks(20_000)
    collector.lateness.count()
    ticks(20_000)
    found = metrics(viewer, collector)
    name = "hilrt_lateness_seconds"
    assert found[f"{name}_bucket", "5e-05"] == 0.0
    assert found[f"{name}_bucket", "0.0001"] == found[f"{name}_bucket", "0.02"] == 20_000.0
    assert found[f"{name}_bucket", "0.05"] == found[f"{name}_bucket", "+Inf"] == 30_000.0
    assert found[f"{name}_count",] == 30_000.0
    assert found[f"{name}_sum",] == pytest.approx(0.01 * (55.0 + 99.0 + 20_001.0))
    viewer.close()


def test_session_not_heard_yet():
    viewer = StillViewer()
    assert metrics(viewer)["hilrt_up",] == 0.0
    viewer.close()


async def test_page_and_metrics_are_served_offline(unused_tcp_port):
    viewer = StillViewer(RUNNING)
    server = make_server(SharedSession(viewer), "127.0.0.1", unused_tcp_port, "token")
    server.start()
    client = AsyncHTTPClient()
    try:
        page = await client.fetch(f"http://127.0.0.1:{unused_tcp_port}/?token=token")
        text = page.body.decode()
        scraped = HTTPRequest(
            f"http://127.0.0.1:{unused_tcp_port}/metrics", headers={"Authorization": "Bearer token"}
        )
        answer = await client.fetch(scraped)
    finally:
        server.stop()
        server.unlisten()
        viewer.close()
    assert 'data-root-id' in text  # fmt: skip
    sources = [part.split('"')[0] for part in text.split('src="')[1:]]
    assert sources
    assert all("static/js/" in source and "://" not in source for source in sources)
    assert "hilrt_up 1.0" in answer.body.decode()
