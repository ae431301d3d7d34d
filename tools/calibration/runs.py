"""Many sessions on all processors, resumable: one line of JSON per session."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.calibration.law import Draw

#: Keys copied from a summary.
KEPT = ("verdict", "reasons", "steps", "time_s", "missed_ticks", "flags", "ports", "bonds")
OPTIONAL = ("estimated_error", "advice")
ADVICE, REFERENCES, PHYSICS_ALONE = "advice", "reference models", "other physics"
PHYSICS_WITH_REFERENCES = f"{PHYSICS_ALONE}, {REFERENCES}"


#: Reason why a session without such a subsystem is not used, see `one_session`.
ALL_TRIED = "every subsystem can be probed"


def one_session(
    number: int, seed: int = 0, *, references: bool = False, physics: bool = False
) -> dict[str, Any]:
    """Run one session; return its line. `physics`: from one of the families of other physics.

    With `references`, every subsystem that cannot be probed gets a wrong reference model.
    """
    from tools.calibration.groups import GROUPS, PHYSICS
    from tools.calibration.law import draw
    from tools.calibration.mistaken import add_references

    begun = time.process_time()
    drawn = draw(number, seed, PHYSICS if physics else GROUPS)
    drawn_s = time.process_time() - begun
    if references and not add_references(drawn, seed):
        return {"number": number, "seed": seed, "error": ALL_TRIED}
    told = outcome(drawn)
    return {
        "number": number,
        "seed": seed,
        "group": drawn.group,
        "settings": drawn.settings,
        **told,
        "cpu_s": [drawn_s, time.process_time() - begun],
    }


def outcome(drawn: Draw) -> dict[str, Any]:
    """Run a session; return its own verdict and its true error."""
    from tools.calibration.compare import compare
    from tools.calibration.sessions import make_session

    made = make_session(drawn)
    summary = made.summary
    said = {key: summary[key] for key in KEPT}
    said |= {key: summary[key] for key in OPTIONAL if key in summary}
    said["fault"] = made.fault
    said["late"] = {name: peer["late"] for name, peer in summary["peers"].items()}
    return {"truth": compare(drawn, made), "said": said}


def _attempt(job: tuple[int, int, str]) -> dict[str, Any]:
    number, seed, mode = job
    try:
        if mode == ADVICE:
            from tools.calibration.advised import advised

            return advised(number, seed)
        return one_session(
            number,
            seed,
            references=mode.endswith(REFERENCES),
            physics=mode.startswith(PHYSICS_ALONE),
        )
    except Exception as error:  # a failed session does not end the others
        return {"number": number, "seed": seed, "error": f"{type(error).__name__}: {error}"}


def run_many(
    numbers: Sequence[int], seed: int, out: Path, workers: int, *, mode: str = ""
) -> Iterator[int]:
    """Run the sessions missing in `out`; yields the number completed.

    In the mode `ADVICE`, sessions that were not good are run again with the suggested change;
    `REFERENCES`: see `one_session`.
    """
    known = {line["number"] for line in read_lines(out)} if out.exists() else set()
    jobs = [(n, seed, mode) for n in numbers if n not in known]
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with multiprocessing.get_context("spawn").Pool(workers) as pool, out.open("a") as file:
        for done, line in enumerate(pool.imap_unordered(_attempt, jobs, chunksize=4), start=1):
            file.write(json.dumps(line, default=plain) + "\n")
            file.flush()
            yield done


def plain(value: Any) -> Any:
    """Convert numbers and arrays of numpy for JSON."""
    return value.tolist()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Sessions of a file; an incomplete line is omitted."""
    found = []
    for text in path.read_text().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found
