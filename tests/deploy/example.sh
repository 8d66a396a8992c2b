#!/usr/bin/env bash
# The shipped example agrees with what is expected, as deploy/run.sh asks it.
#
#   example.sh BIN
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"
# shellcheck source=deploy/example.sh
source "$ATTN_ROOT/deploy/example.sh"

sockets="$(mktemp -d)"
trap 'stop_server; rm -rf "$sockets"' EXIT
start_server "$1" "--grpc-address=unix:$sockets/attn" \
  --metrics-address= --http-address= --drain-delay=0s
output="$(run_example "$1" "$server_address")"
printf '%s\n' "$output"

# The table, the picture with the sentence's tokens, the verdict.
for word in entropy "top key" "final logits" _He ked "output: .*: matches"; do
  grep -q "$word" <<<"$output" || fail "the output has no '$word'"
done
(cd "$ATTN_ROOT/deploy/example" &&
  sed -n 's/^    \([0-9a-f]\{64\}  .*\)/\1/p' README.md | sha256sum --check) ||
  fail "the example is not the one that its README describes"
