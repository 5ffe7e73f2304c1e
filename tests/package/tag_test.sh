#!/usr/bin/env bash
# A release is tagged by scripts/package/tag in a tree that is ready, signed by a key that is made here and thrown away; in any other it is refused with the reason.
#   tag_test.sh SOURCE_FOLDER
set -euo pipefail
source=$1
for tool in git ssh-keygen python3; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work GIT_CONFIG_NOSYSTEM=1
mkdir "$work/tree"
(cd "$source" && cp -r --parents include/unisono/version.h CHANGELOG.md pyproject.toml CITATION.cff packaging scripts/package/tag scripts/check/recipes.py .github "$work/tree")
cd "$work/tree"
ssh-keygen -q -t ed25519 -N "" -C throw-away -f "$work/key"
echo "somebody@localhost $(<"$work/key.pub")" >"$work/signers"
git init --quiet --initial-branch=main
git config user.name somebody && git config user.email somebody@localhost
git config gpg.format ssh && git config user.signingKey "$work/key.pub" && git config gpg.ssh.allowedSignersFile "$work/signers"

commit() { git add --all && git commit --quiet --message "$1"; }
tag() { scripts/package/tag "$@" >"$work/said" 2>&1; }
refused() {  # refused <what it says>
  if tag; then echo "tagged, though: $1"; exit 1; fi
  grep --quiet --fixed-strings -e "$1" "$work/said" || { cat "$work/said"; echo "did not say: $1"; exit 1; }
  [[ -z $(git tag) ]] || { echo "a tag was made, though: $1"; exit 1; }
}

version=$(sed -n 's/^#define UNISONO_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/unisono/version.h | paste -sd .)
sed -i "0,/^## .*/s//## $version, not yet released/" CHANGELOG.md
sed -i 's|https://[a-z.]*/unisono|https://unisono.example/unisono|' pyproject.toml
commit "not ready"
refused "CHANGELOG.md begins with \"## $version, not yet released\""
refused "a placeholder"
sed -i "0,/^## .*/s//## $version, 2026-01-31/" CHANGELOG.md
grep -rl 'unisono\.example' . --exclude-dir=.git --exclude-dir=scripts | xargs sed -i 's|unisono\.example|localhost|'
refused "not committed"
commit "ready"

sed -i 's/^  version: .*/  version: "9.8.7"/' packaging/conda/recipe.yaml
commit "another version in a recipe"
refused "9.8.7"
git reset --quiet --hard HEAD~

tag --dry-run || { cat "$work/said"; exit 1; }
[[ -z $(git tag) ]]
tag || { cat "$work/said"; exit 1; }
grep --quiet 'Good "git" signature for somebody@localhost' "$work/said"
[[ $(git tag) == "v$version" ]]
# A reader that stops early (grep --quiet) may end the writer by SIGPIPE, which pipefail would take for a failure.
git tag --list --format='%(contents:subject)' | grep --line-regexp "unisono $version" >/dev/null
git tag --list --format='%(contents)' | grep --fixed-strings -e "$(awk '/^- /{ print; exit }' CHANGELOG.md)" >/dev/null
if tag || ! grep --quiet "is there already" "$work/said"; then cat "$work/said"; echo "tagged twice"; exit 1; fi
