#!/usr/bin/env python3
"""Checks the protocols in shared memory against the C11 memory model, in which a compiler and a processor may do more than those of this machine.

Each *.litmus is one protocol, in the language of herd7. The comment at its beginning says which functions it transcribes, and
  weaken TAG ORDER        a variant with a weaker order that must go wrong: what the protocol rules out becomes possible, or there is a data race
  replace NAME: OLD => NEW   another variant of that kind
A line of the protocol that ends with `// TAG` stands for the line of the sources that says `// litmus: TAG`: it has the same operation and order.

executions.py decides what is possible. Where herd7 is installed, its model RC11 is asked as well: it must find nothing more."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from executions import explore  # noqa: E402
from programs import read  # noqa: E402

OPERATIONS = ("compare_exchange", "exchange", "fetch_add", "store", "load", "thread_fence")
failures = []


def expect(is_so, text):
    if not is_so:
        failures.append(text)
        print(f"FAILED: {text}")


def operation_and_order(line):
    operation = next((each for each in OPERATIONS if re.search(rf"(\.|atomic_){each}", line)), "nothing")
    orders = re.findall(r"memory_order_(\w+)|\b(relaxed)\b", line)
    return operation, sorted({first or second for first, second in orders})


def tags_of_sources():
    """Returns the lines of the sources by their tags."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.[hc]*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.search(r"// litmus: ([\w-]+)", line):
                expect(match[1] not in found, f"{path}:{number}: the tag {match[1]} stands twice")
                found[match[1]] = (f"{path.relative_to(ROOT)}:{number}", line.split("// litmus:")[0])
    return found


def tagged_lines(text):
    return re.findall(r"^(.*;)\s*// ([\w-]+)$", text, flags=re.M)


def check_transcription(path, sources):
    tags = set()
    for line, tag in tagged_lines(path.read_text()):
        tags.add(tag)
        if tag not in sources:
            expect(False, f"{path.name}: no line of the sources has the tag {tag}")
            continue
        where, source = sources[tag]
        here, there = operation_and_order(line), operation_and_order(source)
        expect(here == there and here[1], f"{path.name}: {tag} is {here}, and {where} is {there}")
    return tags


def weakened(text, tag, order):
    lines, changed = [], 0
    for line in text.splitlines():
        if line.endswith(f"// {tag}"):
            line, times = re.subn(r"memory_order_\w+", f"memory_order_{order}", line)
            changed += times
        lines.append(line)
    return "\n".join(lines) + "\n", changed > 0


def variants(text):
    """Yields each variant that must go wrong: its name, and its text."""
    for tag, order in re.findall(r"^\s*weaken ([\w-]+) (\w+)", text, flags=re.M):
        changed, is_changed = weakened(text, tag, order)
        expect(is_changed, f"there is no line {tag} to weaken")
        yield f"{tag} {order}", changed
    comment, code = text.split("*)", 1)
    for name, old, new in re.findall(r"^\s*replace ([^:]+): (.+?) => (.+?)(?: \*\))?$", comment + "*)", flags=re.M):
        expect(old in code, f"there is no {old!r} to replace")
        yield name, comment + "*)" + code.replace(old, new)


def ask_herd(herd, name, text):
    """Returns what herd7 says of the condition."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.litmus"
        path.write_text(text)
        result = subprocess.run([herd, "-model", "rc11.cat", path], capture_output=True, text=True, timeout=300, check=False)
    match = re.search(r"^Observation \S+ (\w+)", result.stdout, flags=re.M)
    expect(match is not None, f"herd7 does not read {name}: {result.stdout}{result.stderr}")
    return match is not None and match[1] != "Never"


def check_models():
    """The checker itself: what is known of these tests (the paper named in executions.py, and the C11 standard)."""
    two = "C t\n{{}}\nP0(atomic_int* x, atomic_int* y) {{ {0} }}\nP1(atomic_int* x, atomic_int* y) {{ {1} }}\n{2}\nexists ({3})\n"

    def store(place, order, value=1):
        return f"atomic_store_explicit({place}, {value}, memory_order_{order});"

    def load(register, place, order):
        return f"int {register} = atomic_load_explicit({place}, memory_order_{order});"

    def fence(order):
        return f"atomic_thread_fence(memory_order_{order});"

    def buffering(write, look, between=""):
        return two.format(store("x", write) + between + load("r", "y", look), store("y", write) + between + load("r", "x", look), "", r"0:r=0 /\ 1:r=0")

    def passing(write, look):
        data = "*x = 1;"
        return two.format(data + store("y", write), load("r", "y", look) + "if (r == 1) { int d = *x; }", "", r"1:r=1 /\ 1:d=0")

    def independent(order):
        third = "P2(atomic_int* x, atomic_int* y) {" + load("a", "x", order) + load("b", "y", order) + "}\n"
        third += "P3(atomic_int* x, atomic_int* y) {" + load("a", "y", order) + load("b", "x", order) + "}"
        return two.format(store("x", order if order == "seq_cst" else "release"), store("y", order if order == "seq_cst" else "release"), third,
                          r"2:a=1 /\ 2:b=0 /\ 3:a=1 /\ 3:b=0")

    loads_first = two.format(load("r", "x", "relaxed") + store("y", "relaxed"), load("r", "y", "relaxed") + store("x", "relaxed"), "", r"0:r=1 /\ 1:r=1")
    coherence = two.format(store("x", "relaxed") + store("x", "relaxed", 2), load("r", "x", "relaxed") + load("s", "x", "relaxed"), "", r"1:r=2 /\ 1:s=1")
    counting = "int r = atomic_fetch_add_explicit(x, 1, memory_order_relaxed);"
    known = [
        ("store buffering, seq_cst", buffering("seq_cst", "seq_cst"), False, False),
        ("store buffering, release and acquire", buffering("release", "acquire"), True, False),
        ("store buffering, a store of seq_cst and an acquire", buffering("seq_cst", "acquire"), True, False),
        ("store buffering, fences of seq_cst", buffering("relaxed", "relaxed", fence("seq_cst")), False, False),
        ("store buffering, fences of acq_rel", buffering("relaxed", "relaxed", fence("acq_rel")), True, False),
        ("message passing", passing("release", "acquire"), False, False),
        ("message passing, a relaxed store", passing("relaxed", "acquire"), True, True),
        ("message passing, a relaxed load", passing("release", "relaxed"), True, True),
        ("independent reads, seq_cst", independent("seq_cst"), False, False),
        ("independent reads, acquire", independent("acquire"), True, False),
        ("load buffering", loads_first, True, False),
        ("coherence", coherence, False, False),
        ("two sums", two.format(counting, counting, "", r"0:r=0 /\ 1:r=0"), False, False),
    ]
    for name, text, condition, race in known:
        result = explore(read(text))
        expect((result.condition, result.race) == (condition, race), f"the checker says of {name}: {result}")


def main():
    herd = shutil.which("herd7")
    print("herd7 is asked as well" if herd else "skipped: herd7 is missing; executions.py alone decides")
    check_models()
    sources = tags_of_sources()
    used = set()
    for path in sorted(HERE.glob("*.litmus")):
        text = path.read_text()
        used |= check_transcription(path, sources)
        result = explore(read(text))
        expect(not result.condition and not result.race and result.executions > 0, f"{path.name}: {result}")
        print(f"{path.stem}: {result.executions} executions")
        if herd:
            expect(not ask_herd(herd, path.stem, text), f"{path.name}: herd7 finds what the protocol rules out")
        found = list(variants(text))
        expect(found, f"{path.name} has no variant that must go wrong")
        for name, changed in found:
            result = explore(read(changed))
            expect(result.condition or result.race, f"{path.name}: {name} makes no difference: {result}")
            print(f"  {name}: {'possible' if result.condition else ''}{' ' if result.condition and result.race else ''}{'a data race' if result.race else ''}")
            if herd and not result.race and ask_herd(herd, path.stem, changed):
                print("    herd7 finds it as well")
    expect(set(sources) == used, f"tags of the sources without a protocol: {sorted(set(sources) - used)}")
    print(f"{len(failures)} failures" if failures else "all as it should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
