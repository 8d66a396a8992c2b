# Starting, awaiting and stopping one attn-server from a script. Source it after
# deploy/common.sh. The caller sets `trap stop_server EXIT`.
# shellcheck shell=bash

server_pid=""
server_address=""
server_metrics=""
server_log=""
server_dir=""

# server_setting <flag-name> <default> [flag...]: what the server will take: its
# flag, else the ATTN_ variable, else the default.
server_setting() {
  local name="$1" value="$2" variable
  local underscored="${name//-/_}"
  shift 2
  variable="ATTN_${underscored^^}"
  value="${!variable:-$value}"
  while (($# > 0)); do
    case "$1" in
      "--$name="* | "--$underscored="*) value="${1#*=}" ;;
      "--$name" | "--$underscored") value="${2:-}" ;;
    esac
    shift
  done
  echo "$value"
}

# start_server <bin> [flag...]: returns once the health service says SERVING.
start_server() {
  local bin="$1"
  shift
  server_address="$(server_setting grpc-address 127.0.0.1:8001 "$@")"
  server_metrics="$(server_setting metrics-address 127.0.0.1:8002 "$@")"
  server_dir="$(mktemp -d)"
  server_log="$server_dir/attn-server.log"
  say "starting attn-server"
  # A process group of its own: Ctrl-C reaches this script, which asks the
  # server to stop, once.
  set -m
  "$bin/attn-server" "$@" >"$server_log" 2>&1 </dev/null &
  server_pid=$!
  set +m
  await_serving "$bin"
}

await_serving() {
  local bin="$1" deadline=$((SECONDS + 60))
  until "$bin/attn" --address "$server_address" --timeout 2s health \
    >/dev/null 2>&1 && server_runs; do
    server_runs || server_failed
    ((SECONDS < deadline)) || server_failed "is not SERVING after 60 s"
    read -rt 0.1 <> <(:) || true
  done
}

server_runs() { [[ -n "$server_pid" ]] && kill -0 "$server_pid" 2>/dev/null; }

# Ends the script with the one line that helps, or with the server's own words.
server_failed() {
  local taken
  taken="$(grep -iE 'in use|cannot listen|bind' "$server_log" |
    grep -oE '(127|0|\[|localhost|unix:)[^ ,;"]*[0-9]' | head -n 1 || true)"
  if [[ -n "$taken" ]]; then
    fail "$taken is taken by another program: choose other addresses with" \
      "ATTN_GRPC_ADDRESS=127.0.0.1:PORT and ATTN_METRICS_ADDRESS=127.0.0.1:PORT"
  fi
  tail -n 20 "$server_log" >&2
  fail "attn-server ${1:-stopped before it was SERVING}; its last words are above"
}

# Waits until the server ends, by itself or because this script was told to.
wait_for_server() {
  local status=0
  trap 'stop_server; exit "$server_status"' INT TERM
  wait "$server_pid" || status=$?
  server_pid=""
  tail -n 20 "$server_log" >&2
  fail "attn-server stopped with exit code $status; its last words are above"
}

# Asks the server to stop and waits until it has; a second Ctrl-C does not wait.
stop_server() {
  server_status=0
  if server_runs; then
    say "stopping attn-server"
    trap 'kill -KILL "$server_pid"' INT TERM
    kill -TERM "$server_pid"
    # A trap interrupts wait; the server may still be there then.
    while server_runs; do wait "$server_pid" || server_status=$?; done
    server_pid=""
  fi
  [[ -z "$server_dir" ]] || rm -rf "$server_dir"
}
