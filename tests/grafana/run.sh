#!/usr/bin/env bash
# Holds the dashboards against Grafana's own types:
#
#   tests/grafana/run.sh
#
# Needs npm and node; what comes from npm goes into build/tools/grafana. Ends in
# "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/grafana"
readonly TOOLS="$ATTN_ROOT/build/tools/grafana"

# Once for each list of versions.
install_npm() {
  cmp -s "$HERE/package.json" "$TOOLS/package.json" && return
  say "installing packages of npm"
  rm -rf "$TOOLS"
  mkdir -p "$TOOLS/npm"
  cp "$HERE/package.json" "$TOOLS/npm/"
  (cd "$TOOLS" &&
    npm install --silent --no-audit --no-fund --no-package-lock --prefix npm)
  mv "$TOOLS/npm/node_modules" "$TOOLS/npm/package.json" "$TOOLS"
}

for program in npm node; do
  command -v "$program" >/dev/null ||
    fail "$program is not there: deploy/install_packages.sh ci"
done
install_npm
# Packages are looked for above the file that imports them.
cp "$HERE"/{board.ts,tsconfig.json} "$TOOLS/"
node "$HERE/check.mjs" "$ATTN_ROOT/deploy/grafana/dashboards" "$TOOLS"
