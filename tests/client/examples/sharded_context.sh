#!/usr/bin/env bash
# The example of a context over three servers: it asks all, agrees with one, and
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
pids=()
dirs=()
logs=()
addresses=()

clean_up() {
  local i
  for i in "${!pids[@]}"; do
    server_pid="${pids[i]}"
    server_dir="${dirs[i]}"
    stop_server
  done
  rm -rf "$sockets"
}
trap clean_up EXIT

serve() {
  start_server "$bin" "--grpc-address=unix:$sockets/$1" --metrics-address= --http-address= \
    --drain-delay=0s --compute-threads=1
  pids+=("$server_pid")
  dirs+=("$server_dir")
  logs+=("$server_log")
  addresses+=("$server_address")
  server_pid=""
  server_dir=""
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

for name in first second third; do serve "$name"; done

output="$("$bin/sharded_context" "${addresses[@]}")" ||
  fail "the example failed: $output"
say "$output"
grep -q "3 servers: max difference from one server" <<<"$output" ||
  fail "no difference"

# 64 blocks of 64 keys, divided by three; and the first server the whole too.
await_keys "${logs[0]}" 1344
await_keys "${logs[1]}" 1344
await_keys "${logs[2]}" 1408
await_keys "${logs[0]}" 4096

status=0
output="$("$bin/sharded_context" "${addresses[0]}" nowhere 2>&1)" || status=$?
[[ "$status" == 1 && "$(wc -l <<<"$output")" == 1 && "$output" == *nowhere* ]] ||
  fail "a wrong address gives: $output"
