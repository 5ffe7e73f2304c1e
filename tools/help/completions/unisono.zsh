#compdef unisono
# Completion of unisono in zsh. The command itself says what may come next (unisono __complete WORD...); this passes it on.

_unisono() {
  local program=${~${(Q)words[1]}} line
  local -a answer candidates
  answer=("${(@f)$("$program" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  case $answer[1] in
    words)
      for line in "${(@)answer[2,-1]}"; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
      done
      _describe unisono candidates
      ;;
    files | folders)
      [[ $PREFIX != --*=* ]] || compset -P 1 '*='
      if [[ $answer[1] == folders ]]; then _files -/; else _files; fi
      ;;
    program\ *)
      integer begin=$((${answer[1]#program } + 1))
      words=("${(@)words[begin,-1]}")
      ((CURRENT -= begin - 1))
      _normal
      ;;
  esac
}

# This file is a function of fpath, or is read as it is.
if [[ ${funcstack[1]} == _unisono ]]; then _unisono "$@"; else compdef _unisono unisono; fi
