"""Sphinx configuration of the site; `make docs` builds it into build/docs."""

from hilrt.version import VERSION

project = "hilrt"
version = release = VERSION
author = "the hilrt authors"
copyright = author

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "tools.site",
]
exclude_patterns = ["examples", "gallery/*.md5", "gallery/*.ipynb"]
suppress_warnings = ["myst.header"]
nitpicky = True
#: Types in signatures and docstrings: numpy's, Python's, and those that are not public.
nitpick_ignore_regex = [("py:.*", ".*")]

#: Docstrings mark names with single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # of --out they make a dash
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "hilrt"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "hilrt"},
    "footer_start": [],
    "footer_end": [],
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "show_toc_level": 2,
}

#: Its files whose names begin with plot_ are executed.
sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery"],
    "within_subsection_order": "tools.site.example_order",
    "ignore_pattern": "quarter_car|kerb|dyno_model|_fmu[.]py",
    "write_computation_times": False,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "image_srcset": ["2x"],
}
