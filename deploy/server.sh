# Starting, awaiting and stopping one attn-server from a script. Source it after
# deploy/common.sh. The caller sets `trap stop_server EXIT`.
# shellcheck shell=bash
# The caller reads these, once the server has started.
# shellcheck disable=SC2034

server_pid=""
# The first of its gRPC addresses, as a client on this machine must name it.
server_address=""
# host:port of /metrics; empty if they are off.
server_metrics=""
# Where the page is; empty if it is off.
server_page=""
server_log=""
server_dir=""

# start_server <bin> [flag...]: returns once the health service says SERVING.
start_server() {
  local bin="$1"
  shift
  server_dir="$(mktemp -d)"
  server_log="$server_dir/attn-server.log"
  : >"$server_log"
  say "starting attn-server"
  # A process group of its own: Ctrl-C reaches this script, which asks the
  # server to stop, once.
  set -m
  "$bin/attn-server" "$@" >"$server_log" 2>&1 </dev/null &
  server_pid=$!
  set +m
  await_serving "$bin"
}

# First the server's own word, which cannot be another server's on the same
# port; then its health service's.
await_serving() {
  local bin="$1" deadline=$((SECONDS + 60))
  until serving_on; do
    server_runs || server_failed "stopped before it was SERVING"
    ((SECONDS < deadline)) || server_failed "is not SERVING after 60 s"
    sleep 0.05
  done
  run_logged "$bin/attn" --address "$server_address" --timeout 10s health ||
    server_failed "does not answer on $server_address"
}

# Reads the addresses from the log; fails if they are not there yet.
serving_on() {
  server_address="$(sed -nE 's/.*SERVING on ([^, ]+).*/\1/p' "$server_log")"
  [[ -n "$server_address" ]] || return 1
  server_address="${server_address/#0.0.0.0:/127.0.0.1:}"
  server_address="${server_address/#\[::\]:/[::1]:}"
  server_metrics="$(sed -nE 's|.*metrics: http://([^/ ]+)/.*|\1|p' \
    "$server_log")"
  server_page="$(sed -nE 's|.* page: (https?://[^ ]+).*|\1|p' "$server_log")"
  server_page="${server_page/0.0.0.0:/127.0.0.1:}"
  server_page="${server_page/\[::\]:/[::1]:}"
}

server_runs() { [[ -n "$server_pid" ]] && kill -0 "$server_pid" 2>/dev/null; }

# Ends the script with the one line that helps, or with the server's own words.
server_failed() {
  local line flag variable
  line="$(grep -m 1 'cannot listen' "$server_log" || true)"
  if [[ "$line" == *"Address already in use"* ]]; then
    flag="$(grep -oE -m 1 '[-][-](grpc|metrics|http)-address' <<<"$line")"
    variable="ATTN_${flag#--}"
    variable="${variable//-/_}"
    fail "${line#attn-server: }; choose another port:" \
      "deploy/run.sh -- $flag=127.0.0.1:PORT, or the variable ${variable^^}"
  fi
  tail -n 20 "$server_log" >&2
  fail "attn-server $1; its last words are above"
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

# Asks the server to stop and waits until it has, without losing a request; a
# second Ctrl-C tells it to hurry.
stop_server() {
  server_status=0
  if server_runs; then
    say "stopping attn-server"
    trap 'kill -TERM "$server_pid"' INT TERM
    kill -TERM "$server_pid"
    # A trap interrupts wait; the server may still be there then.
    while server_runs; do
      server_status=0
      wait "$server_pid" || server_status=$?
    done
    server_pid=""
    say "attn-server has stopped (exit code $server_status)"
  fi
  [[ -z "$server_dir" ]] || rm -rf "$server_dir"
}
