#!/usr/bin/env bash
# Stands in for the program that it is called as, while a document is followed (run.py): does at once what takes minutes or needs a network, out of the
# build folder that is there, and refuses what the real program would refuse.
set -euo pipefail
name=${0##*/}
source=$DOCUMENT_SOURCE build=$DOCUMENT_BUILD scratch=$DOCUMENT_SCRATCH
export PATH=$DOCUMENT_PATH  # what is called from here is the real one

python=$DOCUMENT_PYTHON
[[ -z ${VIRTUAL_ENV-} ]] || python=$VIRTUAL_ENV/bin/python3

refuse() {
  echo "$name: $*" >&2
  exit 1
}

clone() {  # a folder of links to the source tree, with the build folder that is there
  [[ ! -e unisono ]] || refuse "there is a folder unisono already"
  mkdir -p unisono/build
  find "$source" -mindepth 1 -maxdepth 1 ! -name .git ! -name build -exec ln -s -t unisono {} +
  ln -s "$build" unisono/build/release
  [[ ! -e $source/build/python ]] || ln -s "$source/build/python" unisono/build/python
  [[ ! -e $source/build/dist ]] || ln -s "$source/build/dist" unisono/build/dist
}

configure() {  # PRESET ARGUMENT...: really, in a folder of its own
  local folder
  folder=$(mktemp -d "$scratch/configured-XXXX")
  (cd "$source" && "$DOCUMENT_CMAKE" --preset "$1" -B "$folder" "${@:2}") >"$folder.log" 2>&1 || { cat "$folder.log" >&2; refuse "the configuration fails"; }
  ! grep --quiet 'Manually-specified variables were not used' "$folder.log" || { cat "$folder.log" >&2; refuse "there is no such variable"; }
}

build() {  # PRESET [--target NAME...]: only whether there are such
  (cd "$source" && "$DOCUMENT_CMAKE" --list-presets=build) | grep "^ *\"$1\"" >/dev/null || refuse "no build preset is called $1"
  shift
  (($# > 0)) || return 0
  [[ $1 == --target ]] || refuse "not understood: $*"
  local target
  for target in "${@:2}"; do  # in the files of Ninja, or of make
    grep --quiet --no-messages -e "^build $target: " -e "^$target: " "$build/build.ninja" "$build/Makefile" || refuse "no target is called $target"
  done
}

wheel() {  # prints the wheel of unisono for this Python, where one lies in build/dist that is newer than its sources
  local made
  made=$(compgen -G "$source/build/dist/unisono-*-$("$DOCUMENT_PYTHON" -c 'import sys; v = sys.version_info[:2]
print("cp312-abi3" if v >= (3, 12) else "cp%d%d-cp%d%d" % (v + v))')-*.whl" | tail -n 1)
  [[ -n $made && -z $(find "$source"/{src,include,python,cmake} -type f -newer "$made" -print -quit) ]] && echo "$made"
}

site_of() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

environment() {  # FOLDER: a real one, which finds what the build's Python has, and its pip
  "$DOCUMENT_PYTHON" -m venv --without-pip "$1"
  site_of "$DOCUMENT_PYTHON" >"$(site_of "$1/bin/python3")/of-the-build.pth"
  ln -sf "$(realpath "${BASH_SOURCE[0]}")" "$1/bin/pip"
}

in_environment() { "$python" -m pip "$1" --quiet --disable-pip-version-check "${@:2}"; }

from_build() {  # PROJECT: what was built, with what the package declares of itself
  local module=unisono folder=$1
  [[ $1 != ./python/torch ]] || module=unisono.torch
  PYTHONPATH=$build/python "$DOCUMENT_PYTHON" -c "import $module"
  "$DOCUMENT_PYTHON" - "$scratch/site" "$folder/pyproject.toml" <<'PROGRAM'
import pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())["project"]
folder = pathlib.Path(sys.argv[1], project["name"].replace("-", "_") + "-0.dist-info")
folder.mkdir(parents=True, exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
(folder / "entry_points.txt").write_text("".join(
    f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items()) for group, entries in project["entry-points"].items()))
PROGRAM
  if [[ $python != "$DOCUMENT_PYTHON" ]]; then
    in_environment uninstall --yes unisono 2>/dev/null
    printf '%s\n' "$scratch/site" "$build/python" >"$(site_of "$python")/unisono.pth"
  fi
}

case "$name" in
  apt-get | sudo) ;;
  git)
    [[ $# == 2 && $1 == clone ]] || refuse "not understood: $*"
    clone
    ;;
  cmake)
    case "$1" in
      --preset) configure "${@:2}" ;;
      --preset=*) configure "${1#--preset=}" "${@:2}" ;;
      build/release) ;;
      --build)
        if [[ $2 == --preset ]]; then
          build "${@:3}"
        else
          "$DOCUMENT_CMAKE" "$@"
        fi
        ;;
      *) "$DOCUMENT_CMAKE" "$@" ;;
    esac
    ;;
  ctest)
    [[ $1 != --test-dir ]] || exec "${DOCUMENT_CMAKE%cmake}ctest" "$@"
    [[ $1 == --preset ]] || refuse "not understood: $*"
    (cd "$source" && "${DOCUMENT_CMAKE%cmake}ctest" --list-presets) | grep "^ *\"$2\"" >/dev/null || refuse "no test preset is called $2"
    listed=$("${DOCUMENT_CMAKE%cmake}ctest" --test-dir "$build" --show-only "${@:3}")
    grep --quiet '^Total Tests: [1-9]' <<<"$listed" || refuse "no test is meant by ${*:3}"
    tail -n 1 <<<"$listed"
    ;;
  pip)
    [[ $1 == install ]] || refuse "not understood: $*"
    for what in "${@:2}"; do
      case "$what" in
        torch | numpy | jax)
          [[ $python == "$DOCUMENT_PYTHON" ]] || in_environment install "$what"
          "$python" -c "import $what"
          ;;
        --no-build-isolation) ;;
        . | build/dist/unisono-*.whl | ./python/torch)
          # The backend of torch.distributed is that of the build, and so is the package below it.
          if [[ $python != "$DOCUMENT_PYTHON" && " $* " != *" ./python/torch "* ]] && made=$(wheel); then
            in_environment install --no-index "$made"
          elif [[ $what == ./python/torch ]]; then
            from_build "$what"
          else
            from_build .
          fi
          ;;
        *) refuse "not understood: $what" ;;
      esac
    done
    ;;
  python | python3 | torchrun)
    if [[ $# == 3 && "$1 $2" == "-m venv" ]]; then
      environment "$3"
      exit
    fi
    [[ ! -d $scratch/site ]] || export PYTHONPATH=$scratch/site:$build/python
    [[ $name != torchrun ]] || set -- -m torch.distributed.run "$@"
    exec "$python" "$@"
    ;;
  *) refuse "nobody to stand in for" ;;
esac
