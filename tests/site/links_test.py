"""Links and anchors of the site lead somewhere, nothing is loaded from outside, and every page can be reached.   links_test.py SITE SOURCE"""

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import html_pages

site, source = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
if not (site / "index.html").exists():
    print("skipped: the site was not built")
    sys.exit(77)
version = (source / "docs/_site/versions.txt").read_text().split()[0]
settings = (source / "docs/conf.py").read_text()
repository = re.search(r'^repository = "(.*)"', settings, re.M)[1]
branch = re.search(r'^branch = "(.*)"', settings, re.M)[1]
pages = html_pages.read_all(site / version)
files = {os.path.relpath(path, site / version) for path in site.rglob("*") if path.is_file()}
wrong, links = [], 0


def is_outside(address):
    return re.match(r"[a-z][a-z0-9+.-]*:|//", address) is not None


def check_link(name, address):
    """Appends to `wrong` what does not hold. Returns the page that the link leads to, or None."""
    if is_outside(address):
        path = re.fullmatch(rf"{re.escape(repository)}/(?:blob|tree)/{branch}/([^#]+)(#.*)?", address)
        if path and not (source / unquote(path[1])).exists():
            wrong.append(f"{name}: {address} is no file of the repository")
        elif address.startswith(repository) and not path and address != repository:
            wrong.append(f"{name}: {address} is no address of a file of the repository")
        return None
    path, _, fragment = address.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(name), unquote(path.partition("?")[0]))) if path else name
    if target not in files:
        wrong.append(f"{name}: the link {address} leads to nothing")
        return None
    if target not in pages:
        return None
    if fragment and unquote(fragment) not in pages[target].anchors:
        wrong.append(f"{name}: the link {address} leads to no anchor")
    return target


reached, waiting = {"index.html"}, ["index.html"]
leads_to = {}
for name, page in pages.items():
    links += len(page.links)
    leads_to[name] = {check_link(name, address) for address in page.links} - {None}
    for tag, address in page.resources:
        if is_outside(address) and not address.startswith("data:"):
            wrong.append(f"{name}: <{tag}> loads {address}")
        elif not is_outside(address) and os.path.normpath(os.path.join(os.path.dirname(name), unquote(address.partition("?")[0]))) not in files:
            wrong.append(f"{name}: <{tag}> loads {address}, which there is not")
while waiting:
    for target in leads_to[waiting.pop()] - reached:
        reached.add(target)
        waiting.append(target)
wrong += [f"{name} is reached by no link" for name in sorted(set(pages) - reached - {"search.html", "genindex.html"})]

sheets = 0
for path in site.rglob("*"):
    if path.suffix == ".css":
        sheets += 1
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        wrong += [f"{path.relative_to(site)} loads {each}" for each in re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", text)]
    if path.suffix in (".html", ".css", ".js"):
        text = path.read_text(encoding="utf-8")
        wrong += [f"{path.relative_to(site)} loads {each}" for each in
                  re.findall(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?((?:https?:)?//[^"'\s>]+)|<link[^>]*rel=["'](?:stylesheet|icon|preload|preconnect)["'][^>]*href=["']((?:https?:)?//[^"']+)""", text) if any(each)]

if len(pages) < 100 or links < 5000 or sheets < 3:
    wrong.append(f"only {len(pages)} pages, {links} links and {sheets} style sheets were read")
print("\n".join(sorted(set(wrong))) or f"{len(pages)} pages, {links} links, {sheets} style sheets: all lead somewhere")
sys.exit(1 if wrong else 0)
