#!/usr/bin/env python3
"""Takes a picture of `unisono status` on a terminal, beside a job that stands still.
  status_test.py UNISONO HANG FOLDER    The picture stays in FOLDER. Ends with 77, and says what is missing, where there is no Chromium."""
import fcntl
import html
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

command, hang, screenshots = sys.argv[1:4]
ROWS, COLUMNS = 24, 80
browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
if browser is None:
    print("skipped: there is no browser (Debian: chromium)")
    sys.exit(77)


def job_of(folder):
    """The name of the job whose program lies in that folder, once `unisono status` knows it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        told = subprocess.run([command, "status"], capture_output=True, text=True).stdout
        for block in re.split(r"(?m)^(?=job )", told):
            if folder in "".join(line.strip() for line in block.splitlines()):
                return block.split()[1].rstrip(":")
        time.sleep(0.1)
    sys.exit("the job is not seen")


def screen_of(job):
    """What stands on a terminal of 80 columns when the job has stood still for some seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command, [command, "status", job])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    text, end = "", time.monotonic() + 60
    raw = b""
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                raw += os.read(terminal, 65536)
            except OSError:
                break
        text = raw.decode(errors="ignore")
        screens = text.split("\033[H")[1:-1]  # the last one may not be whole
        if screens and "→" in screens[-1]:
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
            os.close(terminal)
            return re.sub(r"\033\[[0-9;]*[A-Za-z]", "", screens[-1]).replace("\r", "")
    sys.exit("no screen with a cause: " + text[-2000:])


def picture(screen, folder):
    lines = screen.rstrip("\n").split("\n")
    page = folder + "/status.html"
    with open(page, "w", encoding="utf-8") as file:
        file.write("<!doctype html><meta charset=utf-8><style>body{margin:0;background:#1d1f21}pre{margin:0;padding:16px 20px;color:#e4e4e4;"
                   "font:15px/1.35 'DejaVu Sans Mono','Liberation Mono',monospace}b{color:#8abeb7;font-weight:normal}i{color:#f0c674;font-style:normal}</style><pre>")
        advice = False
        for i, line in enumerate(["$ unisono status", *lines]):
            advice = "→" in line or (advice and line.startswith("      "))
            mark = "b" if i == 0 else "i" if advice else "span"
            file.write(f"<{mark}>{html.escape(line)}</{mark}>\n")
        file.write("</pre>")
    os.makedirs(screenshots, exist_ok=True)
    image = os.path.join(screenshots, "status.png")
    size = f"--window-size={40 + 9 * (COLUMNS + 1)},{36 + 21 * (len(lines) + 1)}"
    subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, "--user-data-dir=" + folder + "/profile",
                    "--screenshot=" + image, "file://" + page], check=True, capture_output=True, timeout=120)
    return image


work = tempfile.mkdtemp(prefix="unisono_status_")
program = work + "/regression"
os.symlink(hang, program)
job = subprocess.Popen([command, "run", "-n", "4", "--", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
try:
    screen = screen_of(job_of(work))
    wrong = [line for line in screen.split("\n") if len(line) > COLUMNS]
    words = " ".join(screen.split())
    for part in ("rank 2 has not come to all_reduce #", "in which ranks 0, 1 and 3 wait", "rank state last call"):
        if part not in words:
            wrong.append("the screen lacks: " + part)
    image = picture(screen.replace(work, "."), work)
    print(screen, *wrong, "the picture is " + image, sep="\n")
finally:
    job.terminate()
    job.wait()
    shutil.rmtree(work)
sys.exit(1 if wrong else 0)
