"""The manual pages say all that the help pages say, and formatters find nothing wrong with them.   manual_test.py COMMAND FOLDER VARIABLES.CPP"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from command import Checks, Command

command, checks = Command(sys.argv[1]), Checks()
pages = sorted(Path(sys.argv[2]).glob("man*/*"))


def formatted(page):
    """As a terminal of endless width shows it: in one line."""
    told = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=200n", str(page)], capture_output=True, text=True)
    checks.equal(f"what groff says of {page.name}", told.stderr, "")
    return " ".join(told.stdout.replace("-\n", "-").split())


def variables_of_a_rank():
    """The names of the variables that a rank has and its launcher has not."""
    environment = {"PATH": os.environ["PATH"]}
    told = subprocess.run([command.path, "run", "-n", "1", "--", "env"], capture_output=True, text=True, check=True, env=environment).stdout
    return set(re.findall(r"^\[0\] (\w+)=", told, re.M)) - set(environment) - {"_", "PWD", "SHLVL", "OLDPWD"}


names = {"unisono.1", "unisono-run.1", "unisono-info.1", "unisono-doctor.1", "unisono-status.1", "unisono-completion.1", "unisono-environment.7"}
names |= {f"unisono-{name}.1" for name in ("bench", "simulate", "trace") if "--json" in command.options(name)}
checks.equal("the pages", {page.name for page in pages}, names)

if shutil.which("groff"):
    for page in pages:
        text = formatted(page).replace("−", "-").replace("‐", "-")
        own = page.stem.split("-")[1:] if page.suffix == ".1" else None
        if own is None:
            for name in variables_of_a_rank():
                checks.true(f"{name}, which a rank has, is in {page.name}", re.search(rf"\b{name}\b", text))
            for name in set(re.findall(r"UNISONO_\w+", Path(sys.argv[3]).read_text())):
                checks.true(f"{name} is in {page.name}", name in text)
            continue
        for option in command.options(*own):
            checks.true(f"{option} is in {page.name}", re.search(rf"(^|[ ,]){re.escape(option)}\b", text))
        for word in set(re.findall(r"[\w-]+", command.run(*own, "--help"))) - {"usage", "Positionals"}:
            checks.true(f"'{word}' of the help page is in {page.name}", word.lower() in text.lower())
else:
    print("skipped: what the pages say, since groff is not installed")
if shutil.which("mandoc"):
    for page in pages:
        told = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)], capture_output=True, text=True)
        # Debian's pages are not in mandoc's own list of pages that there are.
        said = [line for line in told.stdout.splitlines() if "referenced manual not found" not in line]
        checks.equal(f"what mandoc says of {page.name}", said, [])
else:
    print("skipped: mandoc is not installed")
if shutil.which("man"):
    for page in pages:
        told = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True, text=True, env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
        checks.equal(f"what man says of {page.name}", told.stderr, "")
else:
    print("skipped: man is not installed")
sys.exit(checks.end())
