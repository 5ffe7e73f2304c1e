"""Builds the site: lays out the pages that Sphinx reads, makes those of the reference, and runs Sphinx.
  build.py BUILT PYTHON FOLDER    BUILT: a build folder that has the manual pages and the Python package, for the Python PYTHON. The site is FOLDER/site;
                                  FOLDER/docs has what lies between. scripts/docs and the tests call it."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import command
import cpp
import cpp_pages
import python_pages
from pages import Problems, Site

ROOT = Path(__file__).resolve().parents[2]
REDIRECT = '<!doctype html>\n<meta charset="utf-8">\n<title>unisono</title>\n<meta http-equiv="refresh" content="0; url={0}/index.html">\n<a href="{0}/index.html">unisono {0}</a>\n'


def python_names(built, python):
    environment = {**os.environ, "PYTHONPATH": str(built / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    stubs = [str(built / "python/unisono/_core.pyi"), str(ROOT / "python/unisono/__init__.pyi")]
    told = subprocess.run([python, str(ROOT / "docs/_site/python_names.py"), *stubs], stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout
    return json.loads(told)


def lay_out(settings, built, python, work):
    """Writes all pages. Returns their folder."""
    folder = work / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(ROOT, settings["repository"], settings["branch"], cpp_pages.pages_of_sources(ROOT))
    site.write(folder)
    cpp_pages.write(ROOT, cpp.run_doxygen(ROOT, work / "doxygen"), folder, site.pages)
    python_pages.write(python_names(built, python), folder, site.pages)
    command.write(built / "share/man", folder)
    return folder


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    built, python, folder = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]).resolve()
    settings = runpy.run_path(str(ROOT / "docs/conf.py"))
    version, versions = settings["version"], settings["versions"]
    if version not in versions:
        sys.exit(f"docs: version {version} does not stand in docs/_site/versions.txt")
    try:
        pages = lay_out(settings, built, python, folder / "docs")
    except (Problems, RuntimeError) as error:
        sys.exit(f"docs: {error}")
    out = folder / "site"
    shutil.rmtree(out / version, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--fresh-env", "--conf-dir", str(ROOT / "docs"),
                    "--doctree-dir", str(folder / "docs/doctrees"), "--jobs", "2", str(pages), str(out / version)], check=True)
    for leftover in (".buildinfo", "objects.inv"):
        (out / version / leftover).unlink(missing_ok=True)
    (out / "versions.js").write_text(f"window.siteVersions = {json.dumps(versions)};\n")
    (out / "index.html").write_text(REDIRECT.format(version))
    print(f"the site is {out}/index.html: {sum(1 for _ in (out / version).rglob('*.html'))} pages")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"docs: {Path(str(error.cmd[0])).name} failed")
