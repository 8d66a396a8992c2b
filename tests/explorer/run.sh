#!/usr/bin/env bash
# The page of server/http/explorer, in real Chromium against a server of its own:
#
#   tests/explorer/run.sh [BIN] [FILE...]
#
# BIN is the folder of attn-server, build/test/bin by default; FILE, names in
# browser/ without .test.mjs, runs those alone. Needs npm, node, Chromium and
# Debian's Python with NumPy; what comes from npm goes into build/tools/explorer.
# Ends in "N passed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/explorer"
readonly TOOLS="$ATTN_ROOT/build/tools/explorer"
# Node looks for packages above the file that imports them: it works on a copy.
readonly TREE="$TOOLS/tree"
readonly PAGE="$TREE/server/http/explorer"

passed=0
failed=0

need() {
  command -v "$1" >/dev/null ||
    fail "$1 is not there: deploy/install_packages.sh build test ci"
}

copy_tree() {
  rm -rf "$TREE"
  mkdir -p "$TREE/tests" "$TREE/server/http"
  cp -R "$ATTN_ROOT/proto" "$TREE/"
  cp -R "$HERE" "$TREE/tests/"
  cp -R "$ATTN_ROOT/server/http/explorer" "$TREE/server/http/"
}

# Once for each list of versions.
install_npm() {
  cmp -s "$HERE/package.json" "$TOOLS/package.json" && return
  say "installing packages of npm"
  rm -rf "$TOOLS/node_modules" "$TOOLS/package.json"
  mkdir -p "$TOOLS/npm"
  cp "$HERE/package.json" "$TOOLS/npm/"
  (cd "$TOOLS" &&
    npm install --silent --no-audit --no-fund --no-package-lock --prefix npm)
  mv "$TOOLS/npm/node_modules" "$TOOLS/npm/package.json" "$TOOLS"
}

# count <runner> <passed> <failed>
count() {
  say "$1: $2 passed, $3 failed"
  passed=$((passed + $2))
  failed=$((failed + $3))
  # A runner that ran nothing is no success.
  if (($2 + $3 == 0)); then failed=$((failed + 1)); fi
}

# number <text> <extended regular expression with one group>; 0 if there is none.
number() {
  if [[ "$1" =~ $2 ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi
}

# The page's own modules, by the types in their comments.
run_types() {
  if node "$TOOLS/node_modules/typescript/bin/tsc" --checkJs --strict --noEmit \
    --target es2022 --module esnext --moduleResolution bundler \
    --lib es2023,dom,dom.iterable --types "" "$PAGE"/*.js; then
    count "types" 1 0
  else
    count "types" 0 1
  fi
}

# run_node <name> <file...>: two files at a time.
run_node() {
  local name="$1" output status=0 bad
  shift
  output="$(node --test --test-concurrency=2 --test-reporter=tap "$@" 2>&1)" ||
    status=$?
  grep -vE '^ *(---|\.\.\.|duration_ms:|type:|# Subtest:|TAP version)' \
    <<<"$output" || true
  bad="$(number "$output" $'\n# fail ([0-9]+)')"
  if ((status != 0 && bad == 0)); then bad=1; fi
  count "$name" "$(number "$output" $'\n# pass ([0-9]+)')" "$bad"
}

main() {
  local program file
  local files=()
  ATTN_BIN="$(cd "${1:-$ATTN_ROOT/build/test/bin}" && pwd)"
  export ATTN_BIN
  shift || true
  for program in npm node chromium; do need "$program"; done
  mkdir -p "$TOOLS"
  copy_tree
  install_npm
  cd "$TREE/tests/explorer"
  for file in "$@"; do files+=("browser/$file.test.mjs"); done
  if ((${#files[@]} == 0)); then
    run_types
    run_node "unit" unit/*.test.mjs
    files=(browser/*.test.mjs)
  fi
  run_node "chromium" "${files[@]}"
  if ((failed > 0)); then
    fail "$passed passed, $failed failed"
  fi
  say "$passed passed"
}

main "$@"
