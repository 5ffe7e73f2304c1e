#!/usr/bin/env bash
# Installs the Debian packages that building and testing need. Does nothing where all of them are present.
#   --core    only what the library, the command and the examples need
#   --torch   that, and what scripts/get-torch and the Python package need
#   --fuzz    what scripts/test-fuzz.sh needs; --afl: that, and AFL++
set -euo pipefail

core=(g++ cmake ninja-build pkg-config libfmt-dev libhwy-dev libmsgpack-cxx-dev libssl-dev libcli11-dev nlohmann-json3-dev)
torch=(python3-venv python3-dev)
development=(git ccache clang-format libgtest-dev libbenchmark-dev openssh-client openssh-server iproute2 procps etcd-server)
peers=(libgloo-dev libopenmpi-dev openmpi-bin libmpich-dev mpich libpmix-dev libucx-dev iperf3 libcurl4-openssl-dev)

fuzz=(clang-16 libclang-rt-16-dev llvm-16)

packages=("${core[@]}" "${torch[@]}" "${development[@]}" "${peers[@]}")
for argument in "$@"; do
  case "$argument" in
    --core) packages=("${core[@]}") ;;
    --torch) packages=("${core[@]}" "${torch[@]}") ;;
    --fuzz) packages=("${core[@]}" "${development[@]}" "${fuzz[@]}") ;;
    --afl) packages=("${core[@]}" "${development[@]}" "${fuzz[@]}" afl++) ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) echo "usage: $0 [--core | --torch | --fuzz | --afl]   (unknown argument: $argument)" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install-dependencies: not a Debian system; please have these at hand under the names of yours: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  # A package may be installed for several architectures, and one is enough, hence the pattern.
  [[ "$state" == *installed* && "$state" != *not-installed* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install-dependencies: these packages are missing and installing them needs root: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "install-dependencies: failed: $*" >&2
    exit 1
  fi
}
patient=(-o Acquire::Retries=5 -o DPkg::Lock::Timeout=600)
# An interrupted installation has to be finished first.
if [[ -n $(dpkg --audit 2>/dev/null) ]]; then quietly dpkg --configure -a; fi
quietly apt-get "${patient[@]}" update
quietly apt-get "${patient[@]}" install --yes --no-install-recommends "${missing[@]}"
# Debian starts an etcd at the usual ports. The tests start their own at other ones.
if [[ " ${missing[*]} " == *" etcd-server "* ]]; then
  if [[ -d /run/systemd/system ]]; then quietly systemctl disable --now etcd.service; else quietly service etcd stop; fi
fi
