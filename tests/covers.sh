# covers ROW...: the test covers these rows of features/rows.txt (COVERS of covers.h, for scripts). To be called at the end, when everything has passed.
# ctest says by COVERAGE_FOLDER and COVERAGE_RUN where it is written; without them nothing is.
[[ -z ${COVERAGE_FOLDER-} ]] || rm -f "$COVERAGE_FOLDER/${COVERAGE_RUN:?}.txt"

covers() {
  [[ -n ${COVERAGE_FOLDER-} && $# -gt 0 ]] || return 0
  mkdir -p "$COVERAGE_FOLDER"
  local record=$COVERAGE_FOLDER/$COVERAGE_RUN.txt
  {
    printf 'program %s\n' "$(realpath "$0")"
    printf "passed %s $COVERAGE_RUN\n" "$@"
  } >"$record.$$"
  mv "$record.$$" "$record"
}
