# Completion of unisono in bash. The command itself says what may come next (unisono __complete WORD...); this passes it on.

_unisono_complete() {
  COMPREPLY=()
  # The words up to the cursor. bash splits at '=' and ':' as well; what no space separates is one word here. `begins` has the number that bash
  # gives to the first piece of each.
  local words=() begins=() rest=${COMP_LINE:0:COMP_POINT} before piece i
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    before=$rest
    rest=${rest#"${rest%%[![:space:]]*}"}
    piece=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || piece=$rest
    if ((i > 0)) && [[ $before == "$rest" ]]; then
      words[-1]+=$piece
    else
      words+=("$piece")
      begins+=("$i")
    fi
    rest=${rest#"$piece"}
  done
  # bash replaces only the last piece, so that is all that it is given.
  local current=${words[-1]}
  [[ $piece != [=:] ]] || piece=
  local kept=${current%"$piece"}

  local answer line
  mapfile -t answer < <("${COMP_WORDS[0]/#\~\//$HOME/}" __complete "${words[@]:1}" 2>/dev/null)
  case ${answer[0]-} in
    words)
      for line in "${answer[@]:1}"; do
        line=${line%%$'\t'*}
        [[ $line != "$current"* ]] || COMPREPLY+=("${line#"$kept"}")
      done
      ;;
    files) compopt -o default ;;
    folders) compopt -o dirnames ;;
    program\ *)
      local program=${answer[0]#program }
      if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "${begins[program]}"
      elif declare -F _command_offset >/dev/null; then
        _command_offset "${begins[program]}"
      elif ((program == ${#words[@]} - 1)); then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -c -- "$current")
      else
        compopt -o default
      fi
      ;;
  esac
}

complete -F _unisono_complete unisono
