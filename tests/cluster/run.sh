#!/usr/bin/env bash
# What a cluster promises, with real servers behind a real HAProxy and a real nginx,
# each on a machine of its own: network namespaces that end with this script,
# however it ends.
#
#   tests/cluster/run.sh [BIN] [ARGUMENTS OF PYTEST]
#
# BIN is the folder of attn-server and cluster_client, build/test/bin by default.
# Needs root; without it, or without namespaces, the tests are skipped. Ends in
# "N passed".
#
#   ATTN_CLUSTER_CALLS=100000  calls of the tests under load, 10000 by default
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/cluster"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3

apart=(unshare --mount --net --pid --fork --kill-child --mount-proc)

# Why there can be no cluster here; nothing if there can.
obstacle() {
  if [[ "$(id -u)" != 0 ]]; then
    echo "needs root, for network namespaces"
  elif ! "${apart[@]}" true 2>/dev/null; then
    echo "this kernel or container allows no network namespaces"
  fi
}

# number <text> <extended regular expression with one group>; 0 if there is none.
number() {
  if [[ "$1" =~ $2 ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi
}

main() {
  local bin output status=0 bad
  bin="$(cd "${1:-$ATTN_ROOT/build/test/bin}" && pwd)"
  shift || true
  ATTN_NO_CLUSTER="$(obstacle)"
  export ATTN_NO_CLUSTER ATTN_BIN="$bin"
  export PYTHONPATH="$bin/../python" PYTHONDONTWRITEBYTECODE=1
  if [[ -z "$ATTN_NO_CLUSTER" ]]; then
    "$ATTN_ROOT/deploy/install_packages.sh" cluster
  else
    apart=(env)
  fi
  # `ip netns` keeps its names in a folder of this mount namespace alone.
  # shellcheck disable=SC2016
  "${apart[@]}" bash -c '
    [[ -n "$ATTN_NO_CLUSTER" ]] || { mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns; }
    exec "$@"' _ "$PYTHON" -m pytest -ra -v -p no:cacheprovider \
    --tb=short "$HERE" "$@" 2>&1 | tee "$log" || status=$?
  output="$(tail -n 1 "$log")"
  bad=$(($(number "$output" '([0-9]+) failed') + $(number "$output" '([0-9]+) error')))
  if ((status != 0 && bad == 0)); then bad=1; fi
  say "$(number "$output" '([0-9]+) passed') passed, $bad failed"
  return "$status"
}

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
main "$@"
