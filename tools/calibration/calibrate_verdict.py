"""Random sessions with known true errors, to calibrate the verdict and the error estimates.

    python -m tools.calibration.calibrate_verdict --sessions 3000 --out calibration.jsonl
    python -m tools.calibration.calibrate_verdict --session 17          one session again, in words
    python -m tools.calibration.calibrate_verdict --report calibration.jsonl
    python -m tools.calibration.calibrate_verdict --report calibration.jsonl \\
        --advised advice.jsonl \\
        --write docs/calibration.md
    python -m tools.calibration.calibrate_verdict --fit calibration.jsonl
    python -m tools.calibration.calibrate_verdict --reference-models --sessions 1500 \\
        --out references.jsonl
    python -m tools.calibration.calibrate_verdict --report references.jsonl --reference-models \\
        --write docs/calibration.md
    python -m tools.calibration.calibrate_verdict --advice --sessions 300 --out advice.jsonl

A session is identified by its number; `calibration/law.py` defines how it is drawn. Sessions
already in the file are not repeated, so that an interrupted run can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tools.calibration.runs import ADVICE, REFERENCES, one_session, plain, run_many


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", default="")
    parser.add_argument("--out", type=Path, default=Path("calibration.jsonl"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--session", type=int)
    parser.add_argument("--advice", action="store_true", help="check the advice of sessions")
    parser.add_argument(
        "--reference-models", action="store_true", help="what cannot be probed has a wrong model"
    )
    parser.add_argument("--report", type=Path)
    parser.add_argument("--advised", type=Path, help="sessions made with --advice, for --write")
    parser.add_argument("--write", type=Path, help="page that gets the report as its results")
    parser.add_argument("--fit", type=Path)
    args = parser.parse_args()
    if args.session is not None:
        line = one_session(args.session, args.seed, references=args.reference_models)
        print(json.dumps(line, indent=1, default=plain))
        return 0
    if args.report is not None:
        from tools.calibration.report import report, write_page, write_references

        if args.write is not None:
            if args.reference_models:
                write_references(args.write, args.report)
            else:
                write_page(args.write, args.report, args.advised)
            return 0
        print(report(args.report))
        return 0
    if args.fit is not None:
        from tools.calibration.fit import fit

        print(fit(args.fit))
        return 0
    from tools.calibration.groups import GROUPS

    names = [*GROUPS]
    wanted = {names.index(g) for g in args.groups.split(",") if g} or set(range(len(names)))
    last = args.first + args.sessions
    numbers = [n for n in range(args.first, last) if n % len(names) in wanted]
    begun = time.monotonic()
    mode = ADVICE if args.advice else REFERENCES if args.reference_models else ""
    runs = run_many(numbers, args.seed, args.out, args.workers, mode=mode)
    for done in runs:
        if done % 100 == 0:
            print(f"{done} sessions, {time.monotonic() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
