#!/usr/bin/env bash
# Starts attn-server on a socket of its own and runs `attn check` against it.
#
#   check.sh BIN cases    the cases of this folder
#   check.sh BIN oracle   the larger collection, all families, if it is there;
#                         exit code 77 (skipped) if not
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
check=("$ATTN_ROOT/tests/conformance/cases")
if [[ "$2" == oracle ]]; then
  oracle="${ATTN_ORACLE_DIR:-$ATTN_ROOT/../shared/oracle}"
  if [[ ! -d "$oracle" ]]; then
    say "SKIPPED: no $oracle; set ATTN_ORACLE_DIR to where the collection lies"
    exit 77
  fi
  check=("$oracle")
fi

sockets="$(mktemp -d)"
trap 'stop_server; rm -rf "$sockets"' EXIT
start_server "$bin" "--grpc-address=unix:$sockets/attn" \
  --metrics-address= --http-address= --drain-delay=0s
# In float, and in double by the reference kernel at its own tolerance.
status=0
for precision in f32 f64; do
  say "precision $precision"
  "$bin/attn" --address "$server_address" check "${check[@]}" \
    --precision "$precision" || status=$?
done
exit "$status"
