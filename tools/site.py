"""Sphinx extension of the site (docs/conf.py): pages from the root, no requests to other hosts."""

import re
from pathlib import Path
from typing import Any

import typer.main
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.util import logging
from typer.cli import get_docs_for_click

from hilrt.cli.main import app as commands
from hilrt.documentation import TITLES, in_documentation

#: Elements that a browser loads by itself: scripts, images, style sheets, frames; not links.
LOADED = re.compile(r"<(?:script|img|link|iframe|source|video|object)\b[^>]*>", re.IGNORECASE)
FOREIGN = re.compile(r"""(?:src|href|data)=["']((?:https?:)?//[^"']+)""", re.IGNORECASE)
STYLE_IMPORTS = re.compile(r"""(?:url\(|@import )\s*["']?((?:https?:)?//[^"')]+)""")

#: Pages of the site whose text is in the repository's root, where readers expect it.
ROOT_PAGES = {
    "index": "README.md",
    "development/contributing": "CONTRIBUTING.md",
    "development/changelog": "CHANGELOG.md",
    "development/security": "SECURITY.md",
}

#: Text only for readers of the file, for which the site inserts its own.
FILE_ONLY = re.compile(r"<!-- file -->\n.*?<!-- /file -->\n\n?", re.DOTALL)

#: Link whose text is the name of a page's file: the site shows the title of its target instead.
FILE_NAMES = re.compile(r"\[[\w./-]+\.md\]\(")

#: The examples in the order in which they should be read.
EXAMPLES = (
    "plot_two_models.py",
    "plot_c_solver.py",
    "plot_dbc.py",
    "plot_first_day.py",
    "plot_fmus.py",
    "plot_sequence.py",
    "plot_study.py",
    "plot_log.py",
    "plot_verdict.py",
    "plot_accuracy.py",
    "plot_defects.py",
    "plot_energy_correction.py",
    "plot_model_correction.py",
)

logger = logging.getLogger(__name__)


def fill_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Insert text from other places into a page: from a file in the root, or from the program."""
    text = source[0]
    if docname in ROOT_PAGES:
        path = Path(app.srcdir).parent / ROOT_PAGES[docname]
        app.env.note_dependency(path)
        filled = (
            path.read_text("utf-8")
            .replace("](docs/", "](/")
            .replace("[Apache-2.0](LICENSE)", "Apache-2.0")
        )
        if docname == "index":
            head, mark, rest = filled.partition("## Try it")
            filled = head + text.replace("<!-- rest -->", mark + rest)
        text = filled
    text = FILE_ONLY.sub("", text)
    if docname == "reference/commands":
        text += command_pages()
    for name, file in ROOT_PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)*{file}", f"](/{name}.md", text)
    text = FILE_NAMES.sub("[](", text)
    source[0] = re.sub(
        r"\]\((?:\.\./)*(?:docs/|/)?examples/(plot_\w+)\.py", r"](/gallery/\1.rst", text
    )


def example_order(name: str) -> int:
    """Return the position of an example in the gallery."""
    return EXAMPLES.index(name)


def command_pages() -> str:
    """Return the help texts of all commands as Markdown."""
    command = typer.main.get_command(commands)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="hilrt")
    text = re.sub(r"\n\* `--help`: .*", "", text.partition("\n## ")[2])
    text = re.sub(r"\n\*\*Options\*\*:\n\n(?=\n|\Z)", "", text)
    text = re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+", "", text)  # cut off; they follow in full
    for page in TITLES:
        text = text.replace(in_documentation(page), f"[](/{page.removeprefix('docs/')})")
    return "\n## " + text.replace("{", "").replace("}", "")


def foreign_requests(folder: Path) -> list[str]:
    """Return the requests to other hosts in the built pages and their style sheets.

    Parameters
    ----------
    folder
        Folder of the built site.

    Returns
    -------
    list of str
        One text per request: the file and the address.
    """
    found = []
    for path in sorted(folder.rglob("*.html")):
        tags = LOADED.findall(path.read_text("utf-8"))
        addresses = [a for tag in tags for a in FOREIGN.findall(tag)]
        found += [f"{path.relative_to(folder)}: {address}" for address in addresses]
    for path in sorted(folder.rglob("*.css")):
        addresses = STYLE_IMPORTS.findall(path.read_text("utf-8"))
        found += [f"{path.relative_to(folder)}: {address}" for address in addresses]
    return found


def report_foreign_requests(app: Sphinx, exception: Exception | None) -> None:
    """Warn of each request to another host, which lets `make docs` fail like every warning."""
    if exception is None and app.builder.format == "html":
        for request in foreign_requests(Path(app.outdir)):
            logger.warning("the page loads from another host: %s", request)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_lexer("dbc", TextLexer)
    app.connect("source-read", fill_page)
    app.connect("build-finished", report_foreign_requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
