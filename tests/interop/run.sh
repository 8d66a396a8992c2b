#!/usr/bin/env bash
# Clients that no one here wrote, against a server of its own:
#
#   tests/interop/run.sh [BIN]
#
# BIN is the folder of attn-server and attn, build/test/bin by default. Needs npm,
# node, openssl and Debian's Python with grpcio and pytest; what comes from npm goes
# into build/tools/interop. Ends in "N passed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

readonly HERE="$ATTN_ROOT/tests/interop"
readonly TOOLS="$ATTN_ROOT/build/tools/interop"
# Node looks for packages above the file that imports them, and pip builds in the
# folder that it is given: both work on a copy.
readonly TREE="$TOOLS/tree"
readonly STUBS="$TOOLS/stubs"
readonly SITE="$TOOLS/site"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3

passed=0
failed=0

need() {
  command -v "$1" >/dev/null ||
    fail "$1 is not there: deploy/install_packages.sh build test ci"
}

copy_tree() {
  rm -rf "$TREE" "$STUBS" "$SITE"
  mkdir -p "$TREE/client" "$TREE/tests" "$STUBS" "$SITE"
  cp -R "$ATTN_ROOT/proto" "$TREE/"
  cp -R "$ATTN_ROOT/client/examples" "$ATTN_ROOT/client/python" "$TREE/client/"
  cp -R "$HERE" "$TREE/tests/"
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

# As a user makes them, and as protoc names them.
make_stubs() {
  local plugin health="$TOOLS/node_modules/grpc-health-check/proto"
  plugin="$(command -v grpc_python_plugin)"
  (cd "$TREE/proto" && find . -name '*.proto' -printf '%P\n' |
    xargs protoc --plugin=protoc-gen-grpc="$plugin" --proto_path=. \
      --python_out="$STUBS" --grpc_out="$STUBS")
  protoc --plugin=protoc-gen-grpc="$plugin" --proto_path="$health" \
    --python_out="$STUBS" --grpc_out="$STUBS" health/v1/health.proto
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

run_pytest() {
  local output status=0 bad
  output="$(PYTHONPATH="$STUBS" "$PYTHON" -B -m pytest -q -p no:cacheprovider \
    "$@" 2>&1)" || status=$?
  echo "$output"
  bad="$(number "$output" '([0-9]+) failed')"
  if ((status != 0 && bad == 0)); then bad=1; fi
  count "python3-grpcio" "$(number "$output" '([0-9]+) passed')" "$bad"
}

run_node() {
  local output status=0 bad
  output="$(node --test --test-reporter=tap "$@" 2>&1)" || status=$?
  grep -vE '^ *(---|\.\.\.|duration_ms:|type:|# Subtest:|TAP version)' \
    <<<"$output" || true
  bad="$(number "$output" $'\n# fail ([0-9]+)')"
  if ((status != 0 && bad == 0)); then bad=1; fi
  count "node" "$(number "$output" $'\n# pass ([0-9]+)')" "$bad"
}

# The package of client/python, as pip builds it from a checkout.
check_pip() {
  local output
  say "pip install client/python"
  run_logged "$PYTHON" -m pip install --no-build-isolation --no-deps --no-index \
    --disable-pip-version-check --root-user-action=ignore --target "$SITE" \
    "$TREE/client/python" || return 1
  output="$(PYTHONPATH="$SITE" "$PYTHON" -B \
    "$ATTN_ROOT/client/examples/quick_start.py" "$server_address")" || return 1
  # The first token sees itself alone.
  [[ "$output" == "1.0 2.0 "*" by the kernel "* ]]
}

run_pip() {
  if check_pip; then count "pip" 1 0; else count "pip" 0 1; fi
}

# A server that does not end well is a failure, whatever its clients saw.
end_server() {
  stop_server
  if ((server_status != 0)); then failed=$((failed + 1)); fi
}

run_plain() {
  start_server "$bin" "${flags[@]}"
  export ATTN_ADDRESS="$server_address"
  run_pytest "$HERE/python"
  run_node "$TREE"/tests/interop/node/*.test.mjs
  run_pip
  end_server
}

make_certificates() {
  local pem="$1"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=ca -keyout "$pem/ca.key" -out "$pem/ca.pem" 2>/dev/null
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=server -addext subjectAltName=DNS:attn.test \
    -addext basicConstraints=critical,CA:false -CA "$pem/ca.pem" \
    -CAkey "$pem/ca.key" -keyout "$pem/server.key" -out "$pem/server.pem" \
    2>/dev/null
}

run_tls() {
  make_certificates "$pem"
  export ATTN_TLS_CA="$pem/ca.pem" ATTN_TLS_SERVER_NAME=attn.test
  start_server "$bin" "${flags[@]}" --tls-cert="$pem/server.pem" \
    --tls-key="$pem/server.key"
  export ATTN_ADDRESS="$server_address"
  run_pytest "$HERE/python"
  run_node "$TREE"/tests/interop/node/{attention,health}.test.mjs
  end_server
}

main() {
  local program
  bin="$(cd "${1:-$ATTN_ROOT/build/test/bin}" && pwd)"
  for program in npm node openssl protoc grpc_python_plugin; do
    need "$program"
  done
  flags=(--grpc-address=127.0.0.1:0 --metrics-address= --http-address= --drain-delay=0s)
  pem="$(mktemp -d)"
  trap 'stop_server; rm -rf "$pem"' EXIT
  mkdir -p "$TOOLS"
  copy_tree
  install_npm
  BUF="$(cd "$ATTN_ROOT" && realpath "$(tests/proto/buf.sh --path)")"
  export BUF
  make_stubs
  run_plain
  run_tls
  if ((failed > 0)); then
    fail "$passed passed, $failed failed"
  fi
  say "$passed passed"
}

main "$@"
