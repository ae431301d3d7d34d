"""The site's extension: the commands' page, and requests to other hosts."""

from pathlib import Path
from types import SimpleNamespace

from tools.site import command_pages, fill_page, foreign_requests

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_commands_says_what_help_says():
    text = command_pages()
    assert "### `hilrt log cut`" in text
    assert "* `--duration <float>`: session time at which the run ends, s\n" in text
    assert "**Commands**" not in text, "click cuts off the lines of that list"
    assert "Explained in [](/logs.md)." in text
    assert "hilrt run [OPTIONS] SESSION.toml" in text


def test_pages_that_the_site_fills_say_in_their_files_where_to_read_them():
    for name in ("commands", "python"):
        source = [(DOCS / "reference" / f"{name}.md").read_text("utf-8")]
        assert "`make docs` builds it" in source[0]
        fill_page(SimpleNamespace(srcdir=DOCS), f"reference/{name}", source)
        assert "make docs" not in source[0]
        assert "<!-- file" not in source[0]


def test_a_link_named_like_its_file_gets_the_title_of_its_target():
    source = ["see [can.md](can.md#j1939) and [adapters](adapters.md)"]
    fill_page(SimpleNamespace(srcdir=DOCS), "fmu", source)
    assert source[0] == "see [](can.md#j1939) and [adapters](adapters.md)"


def test_requests_to_other_hosts_are_found_and_links_are_none(tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://a.example/">link</a><script src="https://b.example/x.js"></script>'
        '<link rel="stylesheet" href="//c.example/x.css"><img src="_images/own.png">',
        encoding="utf-8",
    )
    (tmp_path / "style.css").write_text(
        "a { background: url('data:image/png;base64,AA') } @import 'https://d.example/y.css';"
        " b { background: url(https://e.example/z.png) }",
        encoding="utf-8",
    )
    assert foreign_requests(tmp_path) == [
        "page.html: https://b.example/x.js",
        "page.html: //c.example/x.css",
        "style.css: https://d.example/y.css",
        "style.css: https://e.example/z.png",
    ]
