#!/usr/bin/env bash
# Builds the site for the tests of ctest. Ends with 77, and says what is missing, where scripts/get/docs did not install it.
#   build.sh SOURCE BUILT PYTHON      the site of the tree SOURCE, in BUILT/site, from what lies in BUILT
#   build.sh SOURCE --mistakes        the tests of what is found to be wrong
set -euo pipefail
source=$1
python=$source/build/docs/python/bin/python3
for program in "$python" doxygen pandoc; do
  if ! command -v "$program" >/dev/null; then
    echo "skipped: there is no $program (scripts/get/docs installs it)"
    exit 77
  fi
done
if [[ $2 == --mistakes ]]; then
  exec "$python" -B "$source/tests/site/mistakes_test.py" "$source"
fi
rm -rf "$2/site"
exec "$python" -B "$source/docs/_site/build.py" "$2" "$3" "$2"
