#!/usr/bin/env bash
# The example of a context over two servers: it asks both, agrees with one, and
# says in one line what is wrong with an address.
#
#   sharded_context.sh BIN
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
sockets="$(mktemp -d)"
first_pid=""
first_dir=""

clean_up() {
  stop_server
  server_pid="$first_pid"
  server_dir="$first_dir"
  stop_server
  rm -rf "$sockets"
}
trap clean_up EXIT

serve() {
  start_server "$bin" "--grpc-address=unix:$sockets/$1" --metrics-address= --http-address= \
    --drain-delay=0s --compute-threads=1
}

# Waits until the log of a server tells of an Attend over so many keys: a call is
# logged after its answer is on its way.
await_keys() {
  local log="$1" keys="$2" deadline=$((SECONDS + 60))
  until grep -q "method=\"Attend\".* k\[1, 8, $keys, 64\]" "$log"; do
    ((SECONDS < deadline)) || fail "a server was not asked about $keys keys"
    sleep 0.05
  done
}

serve first
first_pid="$server_pid"
first_dir="$server_dir"
first_address="$server_address"
first_log="$server_log"
server_pid=""
server_dir=""
serve second

output="$("$bin/sharded_context" "$first_address" "$server_address")" ||
  fail "the example failed: $output"
say "$output"
grep -q "max difference from one server" <<<"$output" || fail "no difference"

# Each its half, and the first one the whole too.
await_keys "$first_log" 2048
await_keys "$server_log" 2048
await_keys "$first_log" 4096

status=0
output="$("$bin/sharded_context" "$first_address" nowhere 2>&1)" || status=$?
[[ "$status" == 1 && "$(wc -l <<<"$output")" == 1 && "$output" == *nowhere* ]] ||
  fail "a wrong address gives: $output"
