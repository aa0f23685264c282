"""The site of these pages: `make docs` builds it into build/docs/html, with warnings as errors."""

project = "rmq"
author = "the rmq authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "rmq"
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["pictures"]
myst_heading_anchors = 3  # headings are linked to as on GitHub
highlight_language = "text"
nitpicky = True
