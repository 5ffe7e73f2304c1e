# CHANGELOG.md in the form of a Debian changelog. Variables: package, maintainer, date (2026-11-22T12:00:00Z).
function finish() {
  if (version != "") printf "\n -- %s  %s\n", maintainer, stamp
}
BEGIN {
  split(date, part, /[-T:Z]/)
  split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", month, " ")
  split("Sat Sun Mon Tue Wed Thu Fri", day, " ")
  # Zeller's rule; January and February belong to the year before.
  y = part[1]; m = part[2] + 0; d = part[3] + 0
  if (m < 3) { m += 12; --y }
  weekday = (d + int(13 * (m + 1) / 5) + y + int(y / 4) - int(y / 100) + int(y / 400)) % 7
  stamp = sprintf("%s, %02d %s %d %02d:%02d:%02d +0000", day[weekday + 1], part[3], month[part[2] + 0], part[1], part[4], part[5], part[6])
}
/^## [0-9]/ {
  finish()
  version = $2
  sub(/,$/, "", version)
  printf "%s%s (%s) unstable; urgency=medium\n\n", entries++ ? "\n" : "", package, version
  next
}
version == "" { next }
/^- / { line("  * ", substr($0, 3)); next }
/^  [^ ]/ { line("    ", substr($0, 3)); next }
END { finish() }

# In lines of at most 80 columns.
function line(begin, text,   words, count, i, now) {
  count = split(text, words, " ")
  now = begin words[1]
  for (i = 2; i <= count; ++i) {
    if (length(now) + 1 + length(words[i]) > 80) { print now; now = "    " words[i] }
    else now = now " " words[i]
  }
  print now
}
