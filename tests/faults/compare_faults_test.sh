#!/usr/bin/env bash
# scripts/bench/compare-faults measures what becomes of unisono under a fault of each kind, and says so of a peer that is missing.
#   compare_faults_test.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
if ((EUID != 0)); then
  echo "skipped: mounts of one's own need root"
  exit 77
fi
if ! unshare -m sh -c 'mount -t tmpfs none /dev/shm' 2>/dev/null; then
  echo "skipped: this system allows no mounts of one's own"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$source/scripts/bench/compare-faults" --build "$build" --peers unisono --rows B1,B3,B8,B19,B20,B22 --out "$folder/first"
"$source/scripts/bench/compare-faults" --build "$folder/none" --peers unisono --rows B5 --join "$folder/first/faults.json" --out "$folder/both"
python3 - "$folder/both/faults.json" "$folder/both/faults.md" <<'END'
import json, sys

report = json.load(open(sys.argv[1], encoding="utf-8"))
rows = {row["id"]: row["results"]["unisono"] for row in report["rows"]}
assert list(rows) == ["B1", "B3", "B5", "B8", "B19", "B20", "B22"], list(rows)
assert rows["B1"]["codes"] == [137] and rows["B1"]["seconds_until_known"] is not None, rows["B1"]
assert "rank 1" in rows["B1"]["says"][0], rows["B1"]
assert rows["B3"]["processes_left"] == 0 and rows["B3"]["shared_memory_left"] == [], rows["B3"]
assert not rows["B8"]["silently_wrong"] and rows["B8"]["results"] == {} and "product" in rows["B8"]["says"][0], rows["B8"]
assert [rows["B19"]["sizes"][size]["works"] for size in ("64m", "4m", "1m")] == [True] * 3, rows["B19"]
assert rows["B20"]["codes"] == [7], rows["B20"]
assert rows["B22"]["works"], rows["B22"]
assert "it is not built" in rows["B5"]["not_run"], rows["B5"]
table = open(sys.argv[2], encoding="utf-8").read()
assert table.count("\n| B") == 7, table
END
