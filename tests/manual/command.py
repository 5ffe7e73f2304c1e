"""What the command says of itself: its help pages, read by the tests of completion and of the manual pages."""

import json
import os
import re
import subprocess


class Command:
    def __init__(self, path):
        self.path = path

    def run(self, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNISONO_")}
        return subprocess.run([self.path, *words], capture_output=True, text=True, check=True, env=environment).stdout

    def commands(self):
        """The names of the sub-commands, in the order of the help page."""
        section = self.run("--help").split("Commands:\n", 1)[1].split("\n\n", 1)[0]
        return re.findall(r"^  (\w+)", section, re.M)

    def options(self, *command):
        """The names of all options on the help page of a sub-command, or on that of the whole command."""
        page = self.run(*command, "--help").split("\nExamples:\n")[0]
        heads = re.findall(r"^  (-[^\s,]+(?:, --\S+)?)", page, re.M)
        return {name for head in heads for name in head.split(", ")}

    def ask(self, *words):
        """What `__complete` answers: the first line, and the words with what they mean."""
        first, *rest = self.run("__complete", *words).splitlines()
        return first, dict(line.split("\t") for line in rest)

    def backends(self):
        return {"auto", *json.loads(self.run("info", "--json"))["backends"]}


class Checks:
    """Counts what does not hold, and says it."""

    def __init__(self):
        self.done = self.failed = 0

    def equal(self, what, found, wanted):
        self.done += 1
        if found != wanted:
            self.failed += 1
            print(f"{what}:\n  found   {found}\n  wanted  {wanted}")

    def true(self, what, holds):
        self.equal(what, bool(holds), True)

    def end(self):
        print(f"{self.done} checks, {self.failed} failed")
        return 1 if self.failed or not self.done else 0
