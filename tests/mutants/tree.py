"""The copy of the sources with the mutations in it, and its build."""

import glob
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess

import mutate
import targets

NUMBERS_OF_A_FILE = 1000  # so that a change of one file leaves the numbers of the others


class Tree:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.copy, self.build = folder / "tree", folder / "build"
        self.dropped_file, self.list_file = folder / "dropped.json", folder / "mutants.json"

    def paths(self):
        found = []
        for pattern in targets.TARGETS:
            found += sorted(os.path.relpath(path, self.root) for path in glob.glob(str(self.root / pattern)))
        return found

    def mutants(self):
        """Of the last build: by number."""
        return {entry["number"]: entry for entry in json.loads(self.list_file.read_text())}

    def write(self):
        """The copy, in which only what differs is written anew."""
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"], cwd=self.root, check=True,
                                capture_output=True, text=True).stdout
        paths = self.paths()
        for name in listed.split("\0"):
            if name and name not in paths and (self.root / name).is_file():
                write_if_changed(self.copy / name, (self.root / name).read_bytes(), self.root / name)
        write_if_changed(self.copy / "src" / "mutants.h", (self.root / "tests" / "mutants" / "mutants.h").read_bytes())
        self.sources = self.parsed(paths)
        self.write_mutated()

    def parsed(self, paths):
        """What can be mutated, from the last time if nothing of it has changed."""
        digest = hashlib.sha256()
        for path in [*paths, "tests/mutants/mutate.py", "tests/mutants/source.py"]:
            digest.update(path.encode() + (self.root / path).read_bytes())
        known, mark = self.folder / "parsed", digest.hexdigest()
        if known.exists():
            with known.open("rb") as stream:
                last, sources = pickle.load(stream)
            if last == mark:
                return sources
        sources = mutate.find(paths, str(self.root), compiler_arguments(self.root))
        with known.open("wb") as stream:
            pickle.dump((mark, sources), stream)
        return sources

    def write_mutated(self):
        dropped = set(json.loads(self.dropped_file.read_text())) if self.dropped_file.exists() else set()
        entries = []
        for i, path in enumerate(self.paths()):
            if path not in self.sources:
                shutil.copyfile(self.root / path, self.copy / path)
                continue
            source = self.sources[path]
            source.number_them(NUMBERS_OF_A_FILE * i + 1)
            source.mutants = [mutant for mutant in source.mutants if mutant.key not in dropped]
            write_if_changed(self.copy / path, b'#include "mutants.h"\n' + source.render())
            entries += [{"number": m.number, "key": m.key, "path": path, "line": m.line, "where": m.where, "what": m.what} for m in source.mutants if m.what]
        entries.sort(key=lambda entry: entry["number"])
        self.list_file.write_text(json.dumps(entries, indent=0))

    def make(self, jobs):
        """Builds the programs. A mutation that the compiler refuses is dropped."""
        if not (self.build / "build.ninja").exists():
            run(["cmake", "-S", self.copy, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DUNISONO_TORCH=OFF", "-DUNISONO_BUILD_BENCH=OFF",
                 "-DUNISONO_BUILD_EXAMPLES=OFF", "-DUNISONO_DEVELOPER=OFF", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
                 "-DCMAKE_CXX_FLAGS=-w -Wno-narrowing -D_GLIBCXX_ASSERTIONS"])
        command = ["cmake", "--build", str(self.build), "--parallel", str(jobs), "--target", *targets.build_targets(), "--", "-k", "0"]
        while True:
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if built.returncode == 0:
                return
            if not self.drop(built.stdout):
                raise SystemExit(f"test/mutants: the mutated sources do not compile\n{built.stdout[-8000:]}{built.stderr[-2000:]}")

    def drop(self, output):
        """The mutations at the lines that the compiler complains of."""
        places = set(re.findall(re.escape(str(self.copy)) + r"/(\S+?):(\d+):\d+: (?:error|\s+required from)", output))
        keys = [m.key for path, line in places if path in self.sources for m in self.sources[path].mutants if m.line == int(line) - 1]
        if keys:
            known = json.loads(self.dropped_file.read_text()) if self.dropped_file.exists() else []
            self.dropped_file.write_text(json.dumps(sorted({*known, *keys}), indent=0))
            print(f"{len(keys)} mutations that do not compile are left out")
            self.write_mutated()
        return bool(keys)


def run(command):
    if subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise SystemExit(f"test/mutants: {' '.join(map(str, command))} failed")


def write_if_changed(path, content, like=None):
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if like is not None:
        shutil.copymode(like, path)


def compiler_arguments(root):
    """As our sources are compiled; libclang comes without the headers of a compiler, and takes those of GCC."""
    headers = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    return ["-std=c++20", f"-I{root}/include", f"-I{root}/src", "-isystem", headers]
