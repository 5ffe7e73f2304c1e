"""Makes what a linker needs of a shared library: its symbols, in assembler, and their versions, as a version script.

  stubs.py [--newest VERSION]... LIBRARY ASSEMBLER MAP     the symbols up to these versions: --newest CXXABI_1.3.11 leaves CXXABI_1.3.12 out
  stubs.py --without-versions LIBRARY ASSEMBLER MAP        the symbols as if the library had no versions
  stubs.py --map-alone LIBRARY MAP                         the versions alone, for a library that is linked anew"""

import argparse
import re
import subprocess

SECTIONS = {"FUNC": ("text", "function"), "IFUNC": ("text", "function"), "OBJECT": ("data", "object"), "UNIQUE": ("data", "gnu_unique_object"),
            "TLS": ('section .tbss,"awT",@nobits', "tls_object")}


def symbols(library):
    """Returns the name, the version, whether that is the default one, the type, and the size of each symbol that the library defines."""
    lines = subprocess.run(["readelf", "--wide", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in lines:
        words = line.split()
        if len(words) == 8 and words[6].isdigit() and words[3] in SECTIONS:
            name, at, version = words[7].partition("@")
            found.append((name, version.lstrip("@"), not at or version.startswith("@"), words[3], int(words[2], 0)))
    return found


def numbers(version):
    """Returns the name of a row of versions and the place of this one: CXXABI_1.3.11 is ("CXXABI", [1, 3, 11])."""
    name, _, rest = version.rpartition("_")
    return (name, [int(number) for number in rest.split(".")]) if re.fullmatch(r"[\d.]+", rest) else (version, [])


def kept(version, newest):
    name, place = numbers(version)
    return any(name == other and place <= limit for other, limit in map(numbers, newest))


def assembler(found, versions):
    """Returns the source. Objects keep their sizes, since a program has copies of some."""
    lines = []
    for number, (name, version, default, kind, size) in enumerate(found):
        section, type_name = SECTIONS[kind]
        label = f"stub.{number}" if versions else name
        lines += [f".{section}", ".balign 32", f".globl {label}", f".type {label},@{type_name}", f"{label}: .skip {max(size, 1)}", f".size {label},{max(size, 1)}"]
        if versions:
            lines.append(f".symver {label},{name}{'@@' if default else '@'}{version},remove")
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",@progbits\n'


def version_script(found, names):
    """Returns the script. With names it says which symbols have a version; otherwise the assembler's source has said so."""
    text, before, hidden = "", "", "local: *; " if names else "local: stub.*; "
    for version in sorted({symbol[1] for symbol in found}, key=numbers):
        symbols_of_it = "".join(f"{symbol[0]}; " for symbol in found if symbol[1] == version) if names else ""
        text += f"{version} {{ {'global: ' + symbols_of_it if symbols_of_it else ''}{hidden}}}{before};\n"
        before, hidden = f" {version}", ""
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--newest", action="append")
    parser.add_argument("--without-versions", action="store_true")
    parser.add_argument("--map-alone", action="store_true")
    parser.add_argument("library")
    parser.add_argument("outputs", nargs="+")
    options = parser.parse_args()
    found = [symbol for symbol in symbols(options.library) if not options.newest or kept(symbol[1], options.newest)]
    *source, script = options.outputs
    if source:
        with open(source[0], "w", encoding="utf-8") as file:
            file.write(assembler(found, not options.without_versions))
    with open(script, "w", encoding="utf-8") as file:
        file.write("{ global: *; };\n" if options.without_versions else version_script(found, options.map_alone))


if __name__ == "__main__":
    main()
