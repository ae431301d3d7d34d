"""An event of an FMU in real time: a bench cannot go back to it, so it is flagged."""

import json

import hilrt
from tests.fmu.build import mass, needs_compiler
from tests.fmu.test_events import BALL, EVENTS, IMPACT
from tests.scenarios.sessions import CALM, LINUX, Listener, Run, driving, engine_session, sets

pytestmark = [LINUX, needs_compiler]


def test_a_bench_that_an_event_reaches_is_flagged(tmp_path):
    path = mass(3, canGetAndSetFMUState="true", **EVENTS)
    argv = ["hilrt", "solver", str(path), "--option", 'outputs=["e"]']
    argv += [word for key, value in BALL.items() for word in ("--param", f"{key}={value}")]
    session = engine_session(tmp_path / "configs")
    ball = (
        f'[subsystems.ball]\nadapter = "zeromq"\nspawn = {json.dumps(argv)}\n'
        "late = { max_misses = 1000 }\n"
        '[[connections]]\nfrom = "ball.e"\nto = "engine.pedal"\ngain = 1e-6\n'
    )
    session.write_text(f"{session.read_text()}\n{ball}")
    with Listener() as listener:
        given = sets(*CALM, f"subsystems.engine.bus={listener.table}", driving())
        run = Run(session, tmp_path / "runs", "--duration", "2.0", *given)
        try:
            assert run.wait() == 0, run.stderr
        finally:
            run.clean_up()
    log = hilrt.load_log(run.folder)
    raised = [e for e in log.events if e.cause == "event_inside_step" and "raised" in e.text]
    assert raised
    assert {event.source for event in raised} == {"engine"}
    # Told with the sample of its step, which one of the next communication points takes in: which
    # one is a matter of the host.
    assert 0.0 <= raised[0].t - IMPACT < 1.0
