"""Metrics as Prometheus reads them, and the page over HTTP, without a browser."""

import pytest

pytest.importorskip("prometheus_client", reason="metrics need hilrt[web]")

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tornado.httpclient import AsyncHTTPClient

from hilrt.web.history import History
from hilrt.web.metrics import SessionCollector
from hilrt.web.server import make_server
from hilrt.web.source import Source
from tests.web.views import LATE, RUNNING, StillViewer


def metrics(viewer):
    registry = CollectorRegistry()
    registry.register(SessionCollector(viewer, History()))
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
    assert found["hilrt_lateness_seconds", "0.99"] == pytest.approx(180e-6)
    assert found["hilrt_flags", "sample_late"] == 1.0
    assert found["hilrt_late_samples_total", "vehicle"] == 12.0
    assert found["hilrt_bond_energy_joules", "shaft", "tracking"] == 120.0
    viewer.now_s += 10.0
    assert metrics(viewer)["hilrt_up",] == 0.0
    viewer.close()


def test_session_not_heard_yet():
    viewer = StillViewer()
    assert metrics(viewer)["hilrt_up",] == 0.0
    viewer.close()


async def test_page_and_metrics_are_served_offline(unused_tcp_port):
    viewer = StillViewer(RUNNING)
    server = make_server(Source(viewer), "127.0.0.1", unused_tcp_port)
    server.start()
    client = AsyncHTTPClient()
    try:
        page = await client.fetch(f"http://127.0.0.1:{unused_tcp_port}/")
        text = page.body.decode()
        answer = await client.fetch(f"http://127.0.0.1:{unused_tcp_port}/metrics")
    finally:
        server.stop()
        server.unlisten()
        viewer.close()
    assert 'data-root-id' in text  # fmt: skip
    sources = [part.split('"')[0] for part in text.split('src="')[1:]]
    assert sources
    assert all("static/js/" in source and "://" not in source for source in sources)
    assert "hilrt_up 1.0" in answer.body.decode()
