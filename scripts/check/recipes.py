#!/usr/bin/env python3
"""What scripts/check/recipes and scripts/package/tag compare: recipes, and what the hosting site reads, with the tree.

  recipes.py [--versions] [--addresses] [--options] [--spack] [--vcpkg] [--workflow] [--conda] [--docker]

Prints what is wrong, and ends with 1 where something is. The first five need nothing but Python."""

import ast
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CONDA, SPACK, VCPKG = PACKAGING / "conda/recipe.yaml", PACKAGING / "spack/packages/unisono/package.py", PACKAGING / "vcpkg/unisono/vcpkg.json"


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def version():
    return ".".join(re.findall(r"define UNISONO_VERSION_[A-Z]+ (\d+)", read("include/unisono/version.h")))


def versions():
    """The recipes that have to name a version name that of version.h. A recipe of Spack keeps older ones too; the newest is the first."""
    named = {CONDA: r'^  version: "(.*)"', SPACK: r'version\("(\d[^"]*)"', VCPKG: r'"version": "(.*)"'}
    for path, pattern in named.items():
        found = re.search(pattern, read(path), re.MULTILINE)
        if not found or found.group(1) != version():
            yield f"{path.relative_to(ROOT)} names version {found and found.group(1)}; include/unisono/version.h has {version()}"


def addresses():
    """The address of the project is that of pyproject.toml everywhere."""
    address = re.search(r'^Repository = "(.*)"', read("pyproject.toml"), re.MULTILINE).group(1)
    for path in [ROOT / "CITATION.cff", ROOT / "python/torch/pyproject.toml", PACKAGING / "conan/conanfile.py", CONDA, SPACK, VCPKG]:
        found = re.findall(r"""(?:homepage|url|git|[Rr]epository|repository-code)"?(?: ?[:=] ?)["']?(https:[^"'\s]*)""", read(path))
        if not found:
            yield f"{path.relative_to(ROOT)} names no address"
        for other in found:
            if other.removesuffix(".git") != address:
                yield f"{path.relative_to(ROOT)} names {other}; pyproject.toml has {address}"


def options():
    """Each option of ours that a recipe sets is one that the build has."""
    known = set()
    for path in [ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*.cmake"), *ROOT.glob("src/**/CMakeLists.txt"), *ROOT.glob("python/*.cmake")]:
        known |= set(re.findall(r"(?:option\(|set\()(UNISONO_\w+) (?:\"|.* CACHE )", read(path)))
    for path in PACKAGING.rglob("*"):
        if path.is_file():
            for name in sorted(set(re.findall(r"(?:\b|-D)(UNISONO_[A-Z]\w*)", read(path))) - known):
                yield f"{path.relative_to(ROOT)} sets {name}, which the build does not have"


def cases(strategy):
    """Returns the values of a job's matrix, one dictionary for each case."""
    matrix = dict(strategy.get("matrix", {}))
    found = matrix.pop("include", [{}])
    for name, values in matrix.items():
        found = [{**case, name: value} for case in found for value in values]
    return found


SYSTEMS = {"debian:12", "debian:13", "ubuntu:24.04", "rockylinux/rockylinux:9"}
COMPILERS = {*(f"gcc-{n}" for n in range(12, 15)), *(f"clang-{n}" for n in range(16, 20))}


def workflow():
    """Each line that the CI runs is one script of the tree with options that it knows; all systems and compilers that are promised are there."""
    import ruamel.yaml
    jobs = ruamel.yaml.YAML(typ="safe").load(read(".github/workflows/ci.yml"))["jobs"]
    systems, compilers = set(), set()
    for name, job in jobs.items():
        for case in cases(job.get("strategy", {})):
            systems.add(case.get("system"))
            compilers.add(case.get("compiler"))
            for step in job["steps"]:
                if "run" in step:
                    yield from wrong_line(name, re.sub(r"\$\{\{ *matrix\.(\w+) *\}\}", lambda found: str(case.get(found.group(1), "")), step["run"]))
                elif not step["uses"].startswith("actions/checkout@"):
                    yield f"{name} uses {step['uses']}, which is no script of ours"
    for what in sorted(SYSTEMS - systems) + sorted(COMPILERS - compilers):
        yield f"nothing runs with {what}"


def wrong_line(job, line):
    script, *arguments = line.split()
    path = ROOT / script
    if not re.fullmatch(r"scripts/[\w./-]+", script) or not path.is_file() or not path.stat().st_mode & 0o100:
        yield f"{job} runs {line}: there is no such script"
        return
    for argument in arguments:
        if argument.startswith("-") and argument not in path.read_text(encoding="utf-8"):
            yield f"{job} runs {line}: the script does not know {argument}"


def conda():
    """The recipe is rendered for Linux, with variants as conda-forge pins them."""
    from rattler_build import Stage0Recipe, VariantConfig
    pinned = VariantConfig({"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"], "python": ["3.12.* *_cpython"]})
    rendered = Stage0Recipe.from_file(str(CONDA)).render(pinned)
    names = [f"{variant.recipe.package.name} {variant.recipe.package.version}" for variant in rendered]
    if names != [f"unisono {version()}"]:
        yield f"it renders {names}"


def spack():
    """The package is a class with the directives that Spack needs."""
    tree = ast.parse(read(SPACK))
    package = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    called = {node.func.id for node in ast.walk(package) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    for name in sorted({"version", "depends_on", "license"} - called):
        yield f"{SPACK.name} has no {name}(…)"
    if [base.id for base in package.bases] != ["CMakePackage"]:
        yield f"{package.name} is no CMakePackage"


def vcpkg():
    """The features that the port hands on are those of the manifest."""
    manifest = json.loads(VCPKG.read_text(encoding="utf-8"))
    handed_on = re.search(r"FEATURES ((?:[\w-]+ UNISONO_\w+ ?)+)\)", read(VCPKG.with_name("portfile.cmake"))).group(1).split()[::2]
    if sorted(handed_on) != sorted(manifest["features"]):
        yield f"the port hands on {handed_on}, the manifest has {sorted(manifest['features'])}"


def docker():
    """What the Dockerfile copies is in the tree; the dev container names a stage of it."""
    from dockerfile_parse import DockerfileParser
    path = PACKAGING / "docker/Dockerfile"
    stages, instructions = set(), DockerfileParser(path=str(path.parent), cache_content=True).structure
    for instruction in instructions:
        words = instruction["value"].split()
        if instruction["instruction"] == "FROM" and "AS" in words:
            stages.add(words[-1])
        if instruction["instruction"] == "COPY" and not words[0].startswith("--from=") and not (ROOT / words[0]).exists():
            yield f"{path.name} copies {words[0]}, which is not in the tree"
        if instruction["instruction"] == "COPY" and words[0].startswith("--from=") and words[0][7:] not in stages:
            yield f"{path.name} copies from {words[0][7:]}, which is no stage before it"
    build = json.loads(read(".devcontainer/devcontainer.json"))["build"]
    if (ROOT / ".devcontainer" / build["dockerfile"]).resolve() != path or build["target"] not in stages:
        yield f"the dev container is built by {build}, which is no stage of {path.name}"


if __name__ == "__main__":
    if sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(print(__doc__))
    problems = [problem for check in sys.argv[1:] for problem in globals()[check.removeprefix("--")]()]
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))
