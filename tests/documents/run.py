"""Runs a document: all of its code blocks, in order, as a reader meets them. Ends with a list of what was run, compiled only, left out and excused.

    run.py DOCUMENT --source TREE --build FOLDER [OPTION...]

The shell commands run in one shell, in a folder of its own that stands for the reader's home; the programs in stand_ins.sh spare what takes minutes or
needs a network (cloning, building the library), and check that the command would have been accepted. An environment of `python3 -m venv` is a real one;
pip installs the wheel of build/dist into it where one is there that is newer than its sources, and otherwise leads to the build folder.
"""

import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import blocks

HERE = Path(__file__).resolve().parent
STAND_INS = ("apt-get", "cmake", "ctest", "git", "pip", "sudo")


# All output of a block is shown and kept, also where the block fails.
BEGIN = """exec 3>&1 4>&2
__tee= __started=()
__block_ends() {
  exec >&3 2>&4
  [[ -z $__tee ]] || wait "$__tee" 2>/dev/null
  __tee=
}
trap '__code=$?; ((${#__started[@]} == 0)) || kill "${__started[@]}" 2>/dev/null; __block_ends; exit "$__code"' EXIT
"""


def complete(text):
    """Whether a shell takes these lines as whole commands."""
    return not text.endswith("\\") and subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).returncode == 0


def commands(block):
    """The commands of a shell block with the line of each: one a line, unless they go on."""
    result, begun, held = [], 0, ""
    for number, line in enumerate(block.text.rstrip("\n").split("\n")):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if held else number
        held = f"{held}\n{line}" if held else line
        if complete(held):
            result.append((block.line + begun, held))
            held = ""
    if held:
        raise blocks.Wrong(f"{block.document}:{block.line + begun}: no shell takes this: {held}")
    return result


def quoted(text):
    return "'" + str(text).replace("'", "'\\''") + "'"


class Session:
    """The script that one shell runs, and what became of each block."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.script, self.told, self.checks = [], [], []
        self.commands_run = ""

    def tell(self, block, what, reason=""):
        self.told.append((what, block, reason))

    def step(self, place, command):
        """One command, whose failure ends the document."""
        self.script.append(f"{command}\n__code=$?\nif ((__code != 0)); then echo \"{place}: that ended with exit code $__code\" >&2; exit 1; fi\n")

    def add(self, block, number):
        missing = [word for word in block.needs if word not in self.options.have]
        if block.not_run:
            self.tell(block, "excused", block.not_run)
        elif block.kind == "text":
            self.tell(block, "text")
        elif missing:
            self.tell(block, "left out", f"there is no {', '.join(missing)} here")
        elif block.kind == "fragment":
            self.tell(block, "compiled" if block.compiled_only else "run", block.compiled_only)
        else:
            for name, path in block.files:
                source = next((root / path for root in (self.options.build, self.options.source, HERE) if (root / path).exists()), None)
                if source is None:
                    raise blocks.Wrong(f"{block.place()}: there is no {path}")
                self.step(block.place(), f"{self.folder_for(name)} && ln -sfn {quoted(source)} {quoted(name)}")
            output = self.scratch / f"output-{number}"
            self.script.append(f"echo; echo '== {block.place()}'\nexec > >(tee {quoted(output)}) 2>&1\n__tee=$!\n")
            self.file(block) if block.kind == "file" else self.shell(block)
            self.script.append("__block_ends\n")
            self.checks += [(block, output, text) for text in block.prints]
            self.tell(block, "run")

    def folder_for(self, file):
        """A command that makes it. Much in the reader's clone is a link into the source tree, where nothing may be written."""
        folder = str(Path(file).parent)
        return f"mkdir -p {quoted(folder)} && [[ $(realpath {quoted(folder)}) == {quoted(self.scratch)}/* ]]"

    def shell(self, block):
        used = set()
        started = []
        for line, text in commands(block):
            place = f"{block.document}:{line}"
            excuse = next(((begin, reason) for begin, reason in block.lines_not_run if text.startswith(begin)), None)
            if excuse:
                used.add(excuse)
                self.script.append(f"echo {quoted(f'not run, {excuse[1]}: {text}')}\n")
                continue
            for old, new in block.put:
                text = text.replace(old, new)
            self.commands_run += text + "\n"
            self.script.append(f"echo {quoted('+ ' + text)}\n")
            if block.at_once and not text.startswith(("export ", "cd ")):
                self.script.append(f"(\n{text}\n) </dev/null &\n__started+=($!)\n")
                started.append(place)
            else:
                self.step(place, text)
        for i, place in enumerate(started):
            self.step(place, f"wait ${{__started[{i}]}}")
        if started:
            self.script.append("__started=()\n")
        for begin, reason in block.lines_not_run:
            if (begin, reason) not in used:
                raise blocks.Wrong(f"{block.place()}: no line begins with {begin}")
        for old, _ in block.put:
            if old not in block.text:
                raise blocks.Wrong(f"{block.place()}: there is no {old}")

    def file(self, block):
        kept = self.scratch / "blocks" / block.file
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(block.text, encoding="utf-8")
        self.step(block.place(), f"{self.folder_for(block.file)} && cp --remove-destination {quoted(kept)} {quoted(block.file)}")
        program = self.options.program.get(block.file)
        if not program:
            self.checks.append((block, None, None))
            return
        if (self.options.extracted / block.file).read_text(encoding="utf-8") != block.text:
            raise blocks.Wrong(f"{block.place()}: the build folder has an older {block.file}: build again")
        for launcher in ("", f"{quoted(self.options.build / 'bin/unisono')} run -n 2 -- "):
            self.script.append(f"echo {quoted('+ ' + launcher + program)}\n")
            self.step(block.place(), launcher + quoted(program))

    def files_were_used(self, home):
        """A file that no command has taken would be a block that nobody has tried."""
        compiled = {path.name for path in home.rglob("*.o")}
        configured = {cache.parent for cache in home.rglob("CMakeCache.txt")}
        folders = {line.split("=", 1)[1] for cache in configured for line in (cache / "CMakeCache.txt").read_text().split("\n")
                   if line.startswith("CMAKE_HOME_DIRECTORY:")}
        for block, output, _ in self.checks:
            if output is not None:
                continue
            name = Path(block.file).name
            if name.endswith(".h"):
                used = any(f'#include "{name}"' in other.text for other, written, _ in self.checks if written is None)
            elif block.language == "cpp":
                used = name + ".o" in compiled
            elif block.language == "cmake":
                used = any(Path(folder, name).is_file() and Path(folder, name).read_text() == block.text for folder in folders)
            else:
                used = name in self.commands_run
            if not used:
                raise blocks.Wrong(f"{block.place()}: no command of the document has used {block.file}, and the build has no program of it")

    def outputs_are_right(self):
        for block, output, text in self.checks:
            if output is not None and text not in output.read_text(encoding="utf-8", errors="replace"):
                raise blocks.Wrong(f"{block.place()}: the output has no \"{text}\"")


RESERVED = []  # until this process ends, as tests/free_port.h does it


def free_port():
    """One that no other test is given, and not of those that the system gives to whoever binds to port 0."""
    while True:
        port = random.randrange(10_000, 15_000)
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(f"\0port-of-a-test-{port}")
            with socket.socket() as tried:
                tried.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        RESERVED.append(name)
        return str(port)


def environment(options, scratch, home):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("UNISONO_", "PYTHON", "CONFORMANCE_", "SLURM_", "OMPI_", "PMI")) and name not in
            ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CDPATH", "BASH_ENV", "ENV")}
    tools = scratch / "tools"
    tools.mkdir()
    for name in STAND_INS:
        (tools / name).symlink_to(HERE / "stand_ins.sh")
    if options.python:
        for name in ("python", "python3", "torchrun"):
            (tools / name).symlink_to(HERE / "stand_ins.sh")
    path = [str(tools)]
    if not options.installs:
        path.append(str(options.build / "bin"))  # a document for those who have installed it already
    if shutil.which("ccache") and "CCACHE_DIR" not in kept:  # whose settings lie in the real home
        told = subprocess.run(["ccache", "--get-config", "cache_dir"], text=True, capture_output=True).stdout.strip()
        kept.update({"CCACHE_DIR": told} if told else {})
    return kept | {
        "HOME": str(home), "PATH": os.pathsep.join(path + [kept.get("PATH", os.defpath)]), "OMP_NUM_THREADS": "1", "UNISONO_TIMEOUT": "120",
        "CXXFLAGS": "-O0", "LC_ALL": "C.UTF-8", "DOCUMENT_SOURCE": str(options.source), "DOCUMENT_BUILD": str(options.build),
        "DOCUMENT_SCRATCH": str(scratch), "DOCUMENT_FREE_PORT": free_port(), "DOCUMENT_CMAKE": options.cmake, "DOCUMENT_PYTHON": options.python,
        "DOCUMENT_PATH": kept.get("PATH", os.defpath)}


def fragments_are_run(options, session, all_blocks, env):
    source = blocks.fragments(all_blocks, options.stem)
    if source is None or not any(what in ("run", "compiled") and block.kind == "fragment" for what, block, _ in session.told):
        return
    built = options.extracted / "fragments.cpp"
    if not (HERE / f"{options.stem}.h").exists() or not built.exists():
        raise blocks.Wrong(f"{options.document}: it has fragments of C++, and no tests/documents/{options.stem}.h says what to compile them in")
    if built.read_text(encoding="utf-8") != source:
        raise blocks.Wrong(f"{options.document}: the build folder has its older fragments: build again")
    if options.fragments:
        for launcher in ([], [options.build / "bin/unisono", "run", "-n", "2", "--"]):
            command = [*map(str, launcher), options.fragments]
            print("\n+", *command, flush=True)
            if subprocess.run(command, env=env, cwd=session.scratch, stdin=subprocess.DEVNULL).returncode != 0:
                raise blocks.Wrong(f"{options.document}: its fragments fail")
    elif any(what == "run" and block.kind == "fragment" for what, block, _ in session.told):
        raise blocks.Wrong(f"{options.document}: it has fragments of C++ to run, and no tests/documents/{options.stem}.cpp runs them")


def summary(document, told):
    print(f"\n{document}: {len(told)} blocks")
    for what, meaning in (("run", "run"), ("compiled", "compiled only"), ("text", "text"), ("left out", "left out here"), ("excused", "excused")):
        of_it = [(block, reason) for word, block, reason in told if word == what]
        if of_it:
            print(f"{len(of_it):4} {meaning}")
        for block, reason in of_it:
            print(f"       {block.place()} {block.file or block.language or 'shell'}{': ' + reason if reason else ''}")
    lines = [(block, *line) for _, block, _ in told for line in block.lines_not_run]
    for block, begin, reason in lines:
        print(f"       {block.place()}: not its line {begin}: {reason}")


def run(options):
    name = str(options.document)
    all_blocks = blocks.read(options.source / options.document, name)
    options.installs = any("cmake --install" in block.text for block in all_blocks if block.kind == "shell" and not block.not_run)
    clones = any("git clone" in block.text for block in all_blocks if block.kind == "shell" and not block.not_run)
    # Always in the same place, so that a compiler cache knows the sources again.
    scratch = options.build / "tests" / "documents" / "scratch" / options.stem
    shutil.rmtree(scratch, ignore_errors=True)
    home = scratch / "home"
    home.mkdir(parents=True)
    env = environment(options, scratch, home)
    session = Session(options, scratch)
    session.script.append(BEGIN)
    if not clones:  # who reads it has a clone already
        session.step(name, "git clone the-repository >/dev/null && cd unisono")
        if not options.installs and any("~/opt/unisono" in block.text for block in all_blocks):
            session.step(name, "cmake --install build/release --prefix ~/opt/unisono >/dev/null")
    for number, block in enumerate(all_blocks):
        block.text = block.text.replace("<this repository>", "the-repository")
        session.add(block, number)
    script = scratch / "script.sh"
    script.write_text("".join(session.script), encoding="utf-8")
    if any(what == "run" and block.kind != "fragment" for what, block, _ in session.told):
        if subprocess.run(["bash", script], cwd=home, env=env, stdin=subprocess.DEVNULL).returncode != 0:
            raise blocks.Wrong(f"{name}: it fails when it is followed")
    session.outputs_are_right()
    session.files_were_used(home)
    fragments_are_run(options, session, all_blocks, env)
    summary(name, session.told)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path, help="from the source tree on")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cmake", default=shutil.which("cmake"))
    parser.add_argument("--python", default="", help="one that has PyTorch, and that the Python package was built for")
    parser.add_argument("--have", default="", type=lambda text: text.split(","), help="what blocks may need")
    parser.add_argument("--extracted", type=Path, default=Path("/nowhere"), help="where extract.py has put the C++")
    parser.add_argument("--fragments", default="", help="the program of its fragments")
    parser.add_argument("--program", action="append", default=[], help="FILE=PROGRAM: what the build has made of a file of the document")
    options = parser.parse_args()
    options.stem = re.sub("^docs/((guide|troubleshooting|design)/)?", "", str(options.document.with_suffix(""))).replace("/", "_").replace("-", "_")
    options.program = dict(word.split("=", 1) for word in options.program)
    try:
        run(options)
    except blocks.Wrong as error:
        sys.exit(f"\nFAILED: {error}")


if __name__ == "__main__":
    main()
