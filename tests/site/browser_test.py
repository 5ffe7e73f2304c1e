"""Looks at all pages of the site in a browser, at the widths of a phone, a tablet and a desk: none scrolls sideways, and no code is cut off.
  browser_test.py SITE SOURCE SCREENSHOTS    Ends with 77, and says what is missing, where there is no Chromium."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

site, source, screenshots = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3]).resolve()
WIDTHS = (360, 768, 1440)
PICTURES = (("index.html", 1440, False), ("reference/cpp/work.html", 768, False), ("design/architecture.html", 360, True), ("guide/environment.html", 360, False))
browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
if browser is None or not (site / "index.html").exists():
    print("skipped: " + ("there is no browser (Debian: chromium)" if browser is None else "the site was not built"))
    sys.exit(77)
version = (source / "docs/_site/versions.txt").read_text().split()[0]
versions = (source / "docs/_site/versions.txt").read_text().split()
pages = sorted(str(path.relative_to(site / version)) for path in (site / version).rglob("*.html"))
told, came = [], threading.Event()


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/frame?"):
            width, _, address = self.path.removeprefix("/frame?").partition(",")
            self.answer(f"<body style='margin:0'><iframe style='border:0' width={int(width)} height=900 src='{address}'></iframe>")
        elif self.path == "/look.html":
            self.answer(self.look())
        else:
            super().do_GET()

    @staticmethod
    def look():
        settings = f"const siteBase = '/{version}/', sitePages = {json.dumps(pages)}, siteWidths = {json.dumps(WIDTHS)}, siteVersions = {json.dumps(versions)};"
        script = (source / "tests/site/look.js").read_text(encoding="utf-8")
        return f"<body style='margin:0;width:1440px'><script>{settings}\n{script}</script>"

    def answer(self, page):
        body = f"<!doctype html><meta charset=utf-8>{page}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()
        came.set()

    def log_message(self, *_):
        pass


def options(profile, *more):
    return [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
            "--user-data-dir=" + profile, *more]


def look(address):
    with tempfile.TemporaryDirectory(prefix="unisono_profile_", ignore_cleanup_errors=True) as profile:
        running = subprocess.Popen(options(profile, "--window-size=1500,1000", "--remote-debugging-port=0", address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        came.wait(timeout=1500)
        running.terminate()
        running.wait()
    return told[0] if told else {"wrong": ["the browser has said nothing for 25 minutes"], "measured": 0}


def picture(base, page, width, is_dark):
    """Keeps a picture for a person to look at. A window is never narrower than 500, so that a phone's is a frame in a page."""
    file = screenshots / f"site-{page.replace('/', '-').removesuffix('.html')}-{width}{'-dark' if is_dark else ''}.png"
    with tempfile.TemporaryDirectory(prefix="unisono_profile_", ignore_cleanup_errors=True) as profile:
        dark = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
        address = f"{base}/frame?{width},/{version}/{page}" if width < 500 else f"{base}/{version}/{page}"
        subprocess.run(options(profile, f"--window-size={max(width, 500)},900", "--virtual-time-budget=3000", f"--screenshot={file}", *dark, address),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240, check=True)
    return [] if file.exists() and file.stat().st_size > 5000 else [f"there is no picture {file}"]


def printed(base, page):
    with tempfile.TemporaryDirectory(prefix="unisono_print_", ignore_cleanup_errors=True) as profile:
        file = screenshots / "site-printed.pdf"
        file.unlink(missing_ok=True)
        subprocess.run(options(profile, f"--print-to-pdf={file}", "--no-pdf-header-footer", base + page), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240, check=True)
        return [] if file.exists() and file.stat().st_size > 10000 else ["a page cannot be printed"]


screenshots.mkdir(parents=True, exist_ok=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_address[1]}"
result = look(f"{base}/look.html")
wrong = result["wrong"]
if len(pages) < 100 or result["measured"] < 1000:
    wrong.append(f"only {len(pages)} pages with {result['measured']} blocks of code were looked at")
for name, width, is_dark in PICTURES:
    wrong += picture(base, name, width, is_dark) if name in pages else [f"there is no page {name}"]
wrong += printed(f"{base}/{version}/", "guide/environment.html")
print("\n".join(wrong) or f"{len(pages)} pages, at widths of {WIDTHS}; pictures are in {screenshots}")
sys.exit(1 if wrong else 0)
