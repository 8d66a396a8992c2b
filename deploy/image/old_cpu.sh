#!/usr/bin/env bash
# Runs server and client on processors that this machine does not have, by qemu's
# user mode: from below x86-64-v2 to AVX2. Each serves the example, and gets it
# right.
#
#   deploy/image/old_cpu.sh BIN [ROOT]
#
# BIN is the folder of attn-server and attn, ROOT the file system whose libraries
# they load, if not this one's: the image's. Needs Debian's qemu-user.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# qemu's name, and the widest of Highway's targets whose instructions it has all:
# its SSE4 asks for AES and CLMUL too, which came a year after SSE4.2.
readonly processors=(
  "core2duo SSSE3"
  "Nehalem SSSE3"
  "Westmere SSE4"
  "Haswell AVX2"
)
readonly bin="$1"
readonly file_system="${2:-/}"
readonly example="$ATTN_ROOT/deploy/example/example.npz"
work="$(mktemp -d)"
server=""

clean_up() {
  [[ -z "$server" ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap clean_up EXIT

# emulated <processor> <program> [argument...]: in place of the shell that was
# started for it. What qemu itself cannot do, such as power management, it says on
# standard error.
emulated() {
  local processor="$1" program="$2"
  shift 2
  exec qemu-x86_64 -cpu "$processor" -L "$file_system" "$bin/$program" "$@"
}

await_serving() {
  local deadline=$((SECONDS + 60))
  until grep -q 'SERVING on' "$work/server.log"; do
    kill -0 "$server" 2>/dev/null || fail "on $1 the server stopped:" \
      "$(grep -v ' warning: TCG ' "$work/server.log")"
    ((SECONDS < deadline)) || fail "on $1 the server is not SERVING after 60 s"
    sleep 0.1
  done
}

stop() {
  local status=0
  kill "$server"
  wait "$server" || status=$?
  server=""
  ((status == 0)) || fail "on $1 the server ended with exit code $status"
}

# attend <processor>: the example, by a client on the processor as well.
attend() {
  (emulated "$1" attn --address "unix:$work/attn" attend --input "$example" \
    --causal --compare) >"$work/client.log" 2>&1 || {
    grep -v ' warning: TCG ' "$work/client.log" >&2 || true
    fail "on $1 the example failed or differs from what is expected"
  }
}

# check <processor> <target>
check() {
  local said
  # The last one's words are not this one's.
  : >"$work/server.log"
  (emulated "$1" attn-server --grpc-address="unix:$work/attn" \
    --metrics-address= --http-address= --drain-delay=0s) \
    >"$work/server.log" 2>&1 </dev/null &
  server=$!
  await_serving "$1"
  said="$(sed -nE 's/.*attn-server [0-9.]+: ([A-Z0-9_]+), oneDNN.*/\1/p' \
    "$work/server.log")"
  [[ "$said" == "$2" ]] || fail "on $1 the server computes by '$said', not $2"
  attend "$1"
  stop "$1"
  say "on $1: $said, the example matches"
}

command -v qemu-x86_64 >/dev/null ||
  fail "qemu-x86_64 is not there: deploy/install_packages.sh image"
for entry in "${processors[@]}"; do
  read -r processor target <<<"$entry"
  check "$processor" "$target"
done
