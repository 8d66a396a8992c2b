#!/usr/bin/env bash
# Holds deploy/envoy/envoy.yaml against Envoy's own configuration schema:
#
#   tests/envoy/run.sh
#
# Needs npm, protoc and Debian's Python with protobuf and yaml; what comes from npm
# goes into build/tools/envoy. Ends in "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/envoy"
readonly TOOLS="$ATTN_ROOT/build/tools/envoy"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3

# Once for each list of versions. The .proto files are all that is wanted.
install_npm() {
  cmp -s "$HERE/package-lock.json" "$TOOLS/package-lock.json" && return
  say "installing packages of npm"
  rm -rf "$TOOLS"
  mkdir -p "$TOOLS/npm"
  cp "$HERE"/package{,-lock}.json "$TOOLS/npm/"
  (cd "$TOOLS/npm" && npm ci --silent --no-audit --no-fund --ignore-scripts)
  mv "$TOOLS/npm/node_modules/@grpc/grpc-js-xds/deps" "$TOOLS/deps"
  mv "$TOOLS/npm/package-lock.json" "$TOOLS"
  rm -rf "$TOOLS/npm"
}

for program in npm protoc; do
  command -v "$program" >/dev/null ||
    fail "$program is not there: deploy/install_packages.sh build test ci"
done
install_npm
"$PYTHON" -B "$HERE/check.py" "$ATTN_ROOT/deploy/envoy/envoy.yaml" "$TOOLS/deps" "$TOOLS"
