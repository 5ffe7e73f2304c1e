# Sphinx's settings for the site. scripts/docs runs it; docs/_site/build.py lays out the pages before.
import re
from pathlib import Path

root = Path(__file__).resolve().parents[1]

# Where the sources are read: a link of a document to a file that is no page of the site leads there.
repository = "https://unisono.example/unisono"
branch = "main"

project = "unisono"
numbers = re.findall(r"#define UNISONO_VERSION_(?:MAJOR|MINOR) (\d+)", (root / "include/unisono/version.h").read_text())
version = release = ".".join(numbers)
# What the selector of versions offers, the newest first. Each is a folder of build/site.
versions = (root / "docs/_site/versions.txt").read_text().split()

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4  # `page.md#a-heading`, as in a repository's own view
templates_path = ["_site/templates"]
highlight_language = "sh"  # a block without a language is commands, as in tests/documents/blocks.py
# An example may leave something out with "…", and a page may have small headings alone.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
smartquotes = False
nitpicky = True

html_theme = "furo"
html_title = f"unisono {version}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["select_version.js"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_sidebars = {
    "**": ["sidebar/brand.html", "sidebar/versions.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/scroll-end.html"]
}
html_theme_options = {"navigation_with_keys": True}
html_context = {"version_of_site": version}
