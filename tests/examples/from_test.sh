#!/usr/bin/env bash
# Runs a program of examples/from and compares what it prints, in any order of the lines, with what stands beside its source.
#   from_test.sh EXPECTED HOW UNISONO ROWS PROGRAM...     ROWS: of tests/features, which this covers, with ; between them
# HOW: alone     the program starts its processes itself
#      run       two processes of `unisono run`; the program gets an empty folder as its argument, which it need not take
#      launched  the same with the argument "launched"
#      together  three processes that find each other at a multicast address
#      machines  two processes that are two machines
set -euo pipefail
. "$(dirname "$0")/../covers.sh"
expected=$1 how=$2 unisono=$3 rows=$4
shift 4
if [[ ! -x $1 ]]; then
  echo "skipped, missing on this machine: $1 (scripts/get has what fetches it)"
  exit 77
fi
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE UNISONO_TERMINAL UNISONO_BACKEND MASTER_ADDR MASTER_PORT
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# beside COMMANDS...: each is a line that the shell runs; all run side by side, and all have to end well.
beside() {
  local line
  local -a running=()
  for line in "$@"; do
    eval "$line" &
    running+=($!)
  done
  local code=0 pid
  for pid in "${running[@]}"; do wait "$pid" || code=$?; done
  return "$code"
}

program=$(printf '%q ' "$@")
case $how in
  alone) run() { "$@"; } ;;
  run | launched)
    argument=$folder
    [[ $how == run ]] || argument=launched
    run() { "$unisono" run -n 2 -- "$@" "$argument" | sed 's/^\[[0-9]*\] //'; }
    ;;
  together)
    export UNISONO_TOKEN=secret-of-the-test
    run() {
      local address
      address=tcp://239.66.41.62:$(free_port)
      beside "$program $address" "$program $address" "$program $address"
    }
    ;;
  machines)
    run() {
      local url
      url=tcp://127.0.0.1:$(free_port)
      beside "$program 0 $url" "$program 1 $url"
    }
    ;;
esac
run "$@" >"$folder/out" || { code=$?; cat "$folder/out"; echo "exit code $code"; exit 1; }
diff "$expected" <(LC_ALL=C sort "$folder/out")
IFS=';' read -ra rows <<<"$rows"
covers "${rows[@]}"
