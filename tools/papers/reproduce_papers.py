"""Reproduces the papers' key figures with this package, each with the paper's claim.

    python -m tools.papers.reproduce_papers [--out runs/papers] [--only NAME ...] [--list]

Writes one page, ``index.html``, that needs no network. Every number on it is computed when it is
written: sessions from ``bench_configs`` are run, propagation matrices are built. This takes some
minutes; docs/paper_claims.md describes the figures.
"""

from __future__ import annotations

import argparse
import html
import sys
import time
from pathlib import Path

from bokeh.embed import components
from bokeh.resources import Resources

from hilrt.errors import HilrtError
from tools.papers import corrector, crane, defects, energy, nonlinear, order
from tools.papers.entry import PAPERS, Drawer, Entry

DRAWERS: dict[str, Drawer] = {
    **energy.ENTRIES,
    **crane.ENTRIES,
    **corrector.ENTRIES,
    **nonlinear.ENTRIES,
    **defects.ENTRIES,
    **order.ENTRIES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), help="folder of the page")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(DRAWERS))
    parser.add_argument(
        "--list", action="store_true", help="names of the entries, and nothing else"
    )
    args = parser.parse_args()
    if args.list:
        print("\n".join(DRAWERS))
        return
    entries, left_out = {}, {}
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "index.html"
    for name in args.only or DRAWERS:
        started = time.monotonic()
        try:
            entries[name] = DRAWERS[name]()
        except HilrtError as error:
            left_out[name] = str(error)
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
            continue
        spent = time.monotonic() - started
        print(f"{name}: {entries[name].verdict} ({spent:.0f} s)", file=sys.stderr, flush=True)
        target.write_text(page(entries, left_out), encoding="utf-8")
    print(target)


def page(entries: dict[str, Entry], left_out: dict[str, str]) -> str:
    """The page with all entries so far and the names of those that could not be drawn."""
    plots = [plot for entry in entries.values() for plot in entry.plots]
    script, divs = components(plots)
    drawn = iter(divs)
    sections, paper = [], None
    for name, entry in entries.items():
        if entry.paper != paper:
            paper = entry.paper
            sections.append(f"<h2>{PAPERS[paper]} <small>{_text(paper)}</small></h2>")
        pictures = "".join(next(drawn) for _ in entry.plots)
        sections.append(section(name, entry, pictures))
    held = sum(entry.verdict == "holds" for entry in entries.values())
    return _PAGE.format(
        library=Resources(mode="inline", components=["bokeh"]).render_js(),
        script=script,
        facts=f"{held} of {len(entries)} claims hold as they stand; what differs is said beside "
        "the picture."
        + "".join(f" Left out: {name} ({_text(why)})." for name, why in left_out.items()),
        table="".join(
            f'<a href="#{name}" class="chip {entry.verdict.split()[0]}">{_text(entry.title)}</a>'
            for name, entry in entries.items()
        ),
        sections="".join(sections),
    )


def section(name: str, entry: Entry, pictures: str) -> str:
    """One entry: words on the left, pictures on the right."""
    return (
        f'<section id="{name}"><div class="words"><h3>{_text(entry.title)}</h3>'
        f'<p class="figures">{_text(entry.figures)}</p>'
        f"<h4>The paper</h4><p>{_text(entry.claim)}</p>"
        f'<h4>Here <span class="verdict {entry.verdict.split()[0]}">{entry.verdict}</span></h4>'
        f"<p>{_text(entry.seen)}</p>"
        f'<p class="setting">{_text(entry.setting)}</p></div>'
        f'<div class="pictures">{pictures}</div></section>'
    )


def _text(value: str) -> str:
    return html.escape(value)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Papers, redrawn</title>
<style>
body {{ margin: 0 auto; max-width: 1060px; padding: 28px 24px 60px; background: #fbfbfa;
  color: #1d2126; font: 14px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 24px; font-weight: 650; margin: 0 0 6px; }}
h2 {{ font-size: 18px; font-weight: 650; margin: 36px 0 10px; }}
h2 small {{ font-weight: 400; color: #7a848e; font-size: 13px; margin-left: 6px; }}
h3 {{ font-size: 15px; font-weight: 650; margin: 0; line-height: 1.35; }}
h4 {{ font-size: 12px; font-weight: 600; color: #626b75; margin: 14px 0 2px; }}
p {{ margin: 0; overflow-wrap: anywhere; }}
.figures, .setting {{ color: #7a848e; font-size: 12px; }}
.setting {{ margin-top: 14px; border-top: 1px solid #eceff1; padding-top: 8px; }}
section {{ display: flex; gap: 24px; background: #fff; border: 1px solid #dfe2e5;
  border-radius: 8px; padding: 18px; margin-top: 14px; }}
.words {{ flex: 1 1 0; min-width: 240px; }}
.pictures {{ flex: 0 0 auto; }}
.verdict {{ font-weight: 600; font-size: 11px; border-radius: 9px; padding: 1px 8px;
  margin-left: 4px; }}
.chip {{ display: inline-block; margin: 8px 6px 0 0; padding: 2px 10px; border-radius: 11px;
  font-size: 12px; text-decoration: none; }}
.holds {{ background: #dff1e8; color: #1c6b4a; }}
.in {{ background: #fbeed6; color: #8a5a10; }}
.does {{ background: #fae0db; color: #9b3423; }}
@media (max-width: 960px) {{ section {{ display: block; }} .pictures {{ margin-top: 14px; }} }}
</style>
{library}
</head>
<body>
<h1>Papers, redrawn from our own runs</h1>
<p>{facts}</p>
<div>{table}</div>
{sections}
{script}
</body>
</html>
"""

if __name__ == "__main__":
    main()
