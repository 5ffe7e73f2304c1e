"""Fails where a function of the public C++ headers is called in no program of examples/.
  functions_without_example.py SOURCE_FOLDER"""
import re
import sys
from pathlib import Path

source = Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "tests" / "python"))
import headers  # noqa: E402

# Headers whose functions take what the examples' machine does not have, or are for the authors of bindings and engines.
WAIVED = {
    "cuda.h": "it takes a GPU",
    "device_runtime.h": "for the author of an engine of devices: src/engines/nccl is one",
    "mpi.h": "the program is linked with an MPI: tests/mpi/communicator_rank.cpp is one",
    "interruption.h": "for bindings to other languages: python/src/signals.cpp is one",
}


def main():
    called = set()
    for program in source.glob("examples/**/*.cpp"):
        called |= set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", program.read_text())))
    missing, count = [], 0
    for header in sorted(source.glob("include/unisono/**/*.h")):
        where = header.relative_to(source / "include" / "unisono")
        if {"detail", "torch"} & set(where.parts):
            continue
        names = headers.functions_of(header)
        count += len(names)
        if str(where) in WAIVED:
            if names <= called:
                missing.append(f"{where} is waived, and all of its functions have an example")
            continue
        missing += [f"{name} (unisono/{where}) has no example" for name in sorted(names - called)]
    if count < 150:
        missing.append(f"only {count} functions were read out of the headers")
    print("\n".join(missing) or f"{count} functions, each with an example or a reason")
    return 1 if missing else 0


sys.exit(main())
