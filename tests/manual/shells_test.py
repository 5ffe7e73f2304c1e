"""Asks a real shell what it completes after `unisono`.

    shells_test.py bash|bash-completion|zsh|fish COMMAND [SCRIPT]     SCRIPT: an installed one; that of `unisono completion` by default
"""

import os
import sys
import tempfile
from pathlib import Path

from command import Checks, Command
from shells import Bash, Fish, Zsh

SKIPPED = 77
PACKAGE = "/usr/share/bash-completion/bash_completion"
shell, command, checks = sys.argv[1], Command(sys.argv[2]), Checks()
kind = {"bash": Bash, "bash-completion": Bash, "zsh": Zsh, "fish": Fish}[shell]
missing = kind.missing() or (shell == "bash-completion" and not os.path.exists(PACKAGE) and "the package bash-completion is not installed")
if missing:
    print("skipped:", missing)
    sys.exit(SKIPPED)


def check(shell):
    def equal(line, wanted):
        checks.equal(line, shell.complete(line), set(wanted))

    equal("unisono ", command.commands())
    equal("unisono r", ["run"])
    for name in command.commands():
        equal(f"unisono {name} --", {option for option in command.options(name) if option.startswith("--")})
    equal("unisono run --bind ", ["core", "l3", "none", "numa"])
    equal("unisono run --bind co", ["core"])
    equal("unisono run --bind=co", ["--bind=core"])
    equal("unisono run --backend na", ["native"])
    equal("unisono run --backend cpu:na", ["cpu:native"])
    equal("unisono run --backend=cpu:native,cuda:nc", ["--backend=cpu:native,cuda:nccl"])
    equal('unisono run --logs "a folder" --bind no', ["none"])
    equal("unisono help be", ["bench"])
    equal("unisono completion f", ["fish"])
    # Files and folders: of those here, logs-one is a folder, logs-two a file.
    equal("unisono run --logs logs-", ["logs-one"])
    equal("unisono run --token-file logs-t", ["logs-two"])
    equal("unisono run --token-file=logs-t", ["--token-file=logs-two"])
    # The program and its arguments.
    equal("unisono run -n 2 -- zz-o", ["zz-one"])
    equal("unisono run -n 2 zz-", ["zz-one", "zz-two"])
    equal("unisono run --nproc-per-node 2 --bind=core -- zz-t", ["zz-two"])
    if kind is not Bash or sys.argv[1] == "bash-completion":  # bash alone cannot ask for another program's completions
        equal("unisono run -n 2 -- zz-one beta al", ["alpha"])
        equal("unisono run --backend=cpu:native zz-one ", ["alpha", "beta"])
    equal("unisono run -- zz-two logs-t", ["logs-two"])


with tempfile.TemporaryDirectory() as folder:
    home, programs = Path(folder, "home"), Path(folder, "bin")
    home.mkdir()
    programs.mkdir()
    (home / "logs-one").mkdir()
    (home / "logs-two").touch()
    for name in ("zz-one", "zz-two"):
        Path(programs, name).write_text("#!/bin/sh\n")
        Path(programs, name).chmod(0o755)
    os.symlink(command.path, programs / "unisono")
    if len(sys.argv) > 3:
        script = Path(sys.argv[3]).resolve()
    else:
        script = Path(folder, "script")
        script.write_text(command.run("completion", shell.split("-")[0]))
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    os.chdir(home)
    asked = kind(environment, script, PACKAGE) if shell == "bash-completion" else kind(environment, script)
    try:
        check(asked)
    finally:
        asked.end()
sys.exit(checks.end())
