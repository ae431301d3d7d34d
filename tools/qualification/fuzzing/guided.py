"""Cases of one reader, guided by coverage with atheris, which is not a part of the project.

libFuzzer keeps inputs that reach new lines of this package and changes them further, by `mutate`.
It controls its process, so that `fuzz.py` starts this module for each turn:

    python -m tools.qualification.fuzzing.guided READER FOLDER SECONDS

Exceptions are stored as findings, and the run continues. A crash, a hang or too much memory ends
the process and leaves the input in the folder.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

#: Readers of text and messages. Others need a child process, the sample, or whole archives.
GUIDED = frozenset(
    ("session", "dbc", "kcd", "arxml", "sym", "candump", "asc", "trc", "csv", "wire", "command")
)
#: Limits that end the process: time of one case, s, and memory, MB.
SLOW_S, MEMORY_MB = 30, 2500
LONGEST = 100_000
#: Number of crashes that ends a turn.
DEATHS = 10


def fuzz_guided(name: str, folder: Path, seconds: float) -> list[Path]:
    """Run a reader for a time, also after crashes; return the files of the findings."""
    place = folder / "guided" / name
    place.mkdir(parents=True, exist_ok=True)
    before = set(place.iterdir())
    end = time.monotonic() + seconds
    for _ in range(DEATHS):
        left = end - time.monotonic()
        if left <= 0.0:
            break
        command = [sys.executable, __file__, name, str(folder.absolute()), str(left)]
        with (folder / f"guided_{name}.log").open("ab") as log:
            if subprocess.run(command, stdout=log, stderr=log).returncode == 0:
                break
    new = set(place.iterdir()) - before
    return sorted(p for p in new if p.suffix != ".txt" and not p.name.startswith("slow-unit"))


def _run(name: str, folder: Path, seconds: int) -> None:
    """Run in a separate process, which libFuzzer ends."""
    import atheris

    os.environ["HILRT_FUZZ_SAMPLES"] = str(folder / "samples")
    corpus, place = folder / "corpus" / name, folder / "guided" / name
    corpus.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(
        include=["hilrt"]
    ):  # including modules that a reader loads later
        from hilrt.errors import HilrtError
        from tools.qualification.fuzzing.mutations import mutate
        from tools.qualification.fuzzing.readers import all_readers, samples_of

        reader = next(reader for reader in all_readers() if reader.name == name)
        known = samples_of(reader)
        for i, sample in enumerate(known):
            (corpus / f"sample_{i:03}").write_bytes(sample)

        def change(data: bytes, longest: int, seed: int) -> bytes:
            made = mutate(random.Random(seed), data or known[0], known, text=reader.text)
            return bytes(made[:longest])

        def read(data: bytes) -> None:
            own = Path(tempfile.mkdtemp())
            path = own / f"case{reader.suffix}"
            path.write_bytes(data)
            try:
                reader.read(path, known[0])
            except HilrtError:
                pass
            except Exception:
                keep(data, traceback.format_exc())
            finally:
                shutil.rmtree(own, ignore_errors=True)

        def keep(data: bytes, text: str) -> None:
            where = [line for line in text.splitlines() if line.startswith("  File")][-1:]
            same = hashlib.sha256("".join(where).encode()).hexdigest()[
                :12
            ]  # one per place in the code
            path = place / f"{same}{reader.suffix}"
            if not path.exists():
                path.write_bytes(data)
                path.with_suffix(".txt").write_text(text)

        for sample in known:
            read(sample)  # load modules before the first case is timed
        limits = [f"-timeout={SLOW_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LONGEST}"]
        limits += [f"-max_total_time={max(1, seconds)}", f"-artifact_prefix={place}/"]
        atheris.Setup([sys.argv[0], str(corpus), *limits], read, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), round(float(sys.argv[3])))
