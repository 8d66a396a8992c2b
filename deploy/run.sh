#!/usr/bin/env bash
# From a bare checkout to a server that answers: installs the packages, builds a
# release, starts attn-server, runs the example against it and keeps serving.
#
#   deploy/run.sh [--once] [-- SERVER-FLAG...]
#
#   --once   stop after the example; the exit code says whether its result
#            agrees with the expected one
#
# What follows `--` goes to attn-server; so do all ATTN_* variables.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"
# shellcheck source=deploy/example.sh
source "$ATTN_ROOT/deploy/example.sh"

bin="$ATTN_ROOT/build/release/bin"

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }

parse_arguments() {
  once=false
  server_flags=()
  while (($# > 0)); do
    case "$1" in
      --once) once=true ;;
      -h | --help) usage && exit 0 ;;
      --) shift && server_flags=("$@") && return ;;
      *) fail "unknown argument '$1': see deploy/run.sh --help" ;;
    esac
    shift
  done
}

main() {
  local status=0
  parse_arguments "$@"
  "$ATTN_ROOT/deploy/install_packages.sh" build
  build_preset release
  trap stop_server EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # No load balancer has to notice that this server goes away.
  export ATTN_DRAIN_DELAY="${ATTN_DRAIN_DELAY:-0s}"
  start_server "$bin" "${server_flags[@]}"
  say "the example: layer 1 of a small transformer reads a sentence of 24 tokens"
  run_example "$bin" "$server_address" || status=$?
  if ((status != 0)); then
    fail "the example failed or differs from what is expected (exit $status)"
  fi
  if "$once"; then return; fi
  say "serving gRPC on $server_address, metrics on ${server_metrics:-no port}"
  if [[ -n "$server_page" ]]; then say "watch attention in a browser: $server_page"; fi
  say "try: $bin/attn --address $server_address info"
  say "log: $server_log   stop: Ctrl-C"
  wait_for_server
}

main "$@"
