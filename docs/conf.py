"""How the pages are built: Markdown in, a small site that opens from disk out."""

project = "backflip"
author = "The backflip authors"
project_copyright = "2026, The backflip authors"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "backflip"
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
