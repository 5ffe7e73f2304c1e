"""Looks for links of the documents that lead to nothing, and for pages that are in no list, without building the site. It needs Python alone.
  check.py    Documents that are no pages, as the README of a folder of sources, are looked at as well."""

import runpy
import sys
import tempfile
from pathlib import Path

from cpp_pages import pages_of_sources
from pages import Problems, Site

ROOT = Path(__file__).resolve().parents[2]
settings = runpy.run_path(str(ROOT / "docs/conf.py"))
others = [path for folder in ("src", "tools", "bench", "tests", "python", "packaging", "contrib") for path in sorted((ROOT / folder).rglob("*.md"))]
site = Site(ROOT, settings["repository"], settings["branch"], pages_of_sources(ROOT))
with tempfile.TemporaryDirectory(prefix="unisono_site_") as folder:
    try:
        for path in others:
            site.converted(str(path.relative_to(ROOT)))
        site.write(folder)
    except Problems as problems:
        sys.exit(str(problems))
print(f"{len(site.pages)} pages, each in a list, and {len(others)} other documents: their links lead somewhere")
