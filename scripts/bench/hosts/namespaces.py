"""Hosts that are network namespaces (tests/hosts/with_hosts), with links whose rate and delay are chosen."""

import os
import subprocess
import sys

from hosts.driver import ROOT, SKIPPED, cannot, name

WITH_HOSTS = f"{ROOT}/tests/hosts/with_hosts"


def link_words(rate, delay):
    """Returns the options of with_hosts; "none" leaves the link as it is."""
    return [*(["--rate", rate] if rate not in (None, "none") else []), *(["--delay", delay] if delay not in (None, "none") else [])]


def variables(build):
    return {"DELAY_LINE": f"{build}/tests/delay_line"}


class Hosts:
    """Exist as long as this object is entered. `enter` has the words that run a command on one of them."""

    def __init__(self, count, build, rate=None, delay=None):
        self.words = [WITH_HOSTS, *link_words(rate, delay), str(count)]
        self.variables = variables(build)
        self.pids, self.addresses = [], []

    def __enter__(self):
        self.holder = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **self.variables})
        for line in self.holder.stdout:
            fields = line.split()
            if fields == ["ready"]:
                return self
            self.pids.append(fields[2])
            self.addresses.append(fields[3])
        self.holder.wait()
        if self.holder.returncode == SKIPPED:
            cannot("no hosts (the reason stands above)")
        sys.exit(f"{name()}: with_hosts ended with code {self.holder.returncode}")

    def __exit__(self, *_):
        self.holder.stdin.close()
        self.holder.wait(60)

    def enter(self, host):
        return ["nsenter", "--target", self.pids[host], "--net", "--uts", "--mount", "--wd=.", "--"]

    def write_agent(self, path):
        """Writes a program that stands in for ssh where an MPI starts its processes: `agent [OPTION...] HOST COMMAND...`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nwhile case "$1" in -*) true ;; *) false ;; esac; do shift; done\nhost=$1\nshift\ncase "$host" in\n')
            for number, pid in enumerate(self.pids):
                file.write(f"  host{number}) pid={pid} ;;\n")
            file.write('esac\nexec nsenter --target "$pid" --net --uts --mount --wd=. -- sh -c "$*"\n')
        os.chmod(path, 0o755)
