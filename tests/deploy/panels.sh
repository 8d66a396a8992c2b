#!/usr/bin/env bash
# Runs every panel's query of every dashboard, and every rule, against a real
# Prometheus that scrapes a real server under load, by the shipped configuration.
#
#   panels.sh BIN
#
# Needs Debian's prometheus and python3 with grpcio and numpy, and the Python client
# beside BIN, as the build makes it. All on loopback, on free ports.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
# Longer than all that is asked; it is ended then.
readonly load_seconds=3600
readonly here="$ATTN_ROOT/tests/deploy"
readonly dashboards="$ATTN_ROOT/deploy/grafana/dashboards"
readonly rules="$ATTN_ROOT/deploy/prometheus/rules"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3
export PYTHONDONTWRITEBYTECODE=1
work="$(mktemp -d)"
prometheus_pid=""
load_pid=""
calls_pid=""

clean_up() {
  [[ -z "$load_pid" ]] || kill "$load_pid" 2>/dev/null || true
  [[ -z "$calls_pid" ]] || kill "$calls_pid" 2>/dev/null || true
  [[ -z "$prometheus_pid" ]] || kill "$prometheus_pid" 2>/dev/null || true
  stop_server
  wait
  rm -rf "$work"
}
trap clean_up EXIT

# The shipped configuration, but for the place of the one server and the pace.
configure_prometheus() {
  sed -E "s/\"attn-1:8002\".*\]/\"$server_metrics\"]/; s/(_interval): .*/\1: 1s/" \
    "$ATTN_ROOT/deploy/prometheus/prometheus.yml" >"$work/prometheus.yml"
  cp -R "$rules" "$work/rules"
  promtool check config "$work/prometheus.yml"
}

# Without root's rights, as it is to be run.
start_prometheus() {
  local as_nobody=()
  if [[ "$(id -u)" == 0 ]]; then
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown -R 65534:65534 "$work"
  fi
  "${as_nobody[@]}" prometheus --config.file="$work/prometheus.yml" \
    --storage.tsdb.path="$work/data" --web.listen-address=127.0.0.1:0 \
    >"$work/prometheus.log" 2>&1 </dev/null &
  prometheus_pid=$!
  until url="$(sed -nE 's|.*msg="Listening on" address=([0-9.:]+).*|http://\1|p' \
    "$work/prometheus.log")" && [[ -n "$url" ]]; do
    kill -0 "$prometheus_pid" ||
      fail "prometheus stopped: $(tail -n 3 "$work/prometheus.log")"
    sleep 0.1
  done
  say "prometheus answers at $url"
}

# More callers than threads, so that calls wait; and calls of the kinds that the
# load tester does not make.
load() {
  # In place of the shell that was started for it, which is what is ended.
  exec "$bin/attn" --address "$server_address" load \
    --duration "${load_seconds}s" --closed 6 --verify-every 0 --profile "$here/load.json"
}

call() {
  exec env PYTHONPATH="$bin/../python" "$PYTHON" "$here/calls.py" "$@"
}

# Both must last until all has been asked.
check_load() {
  kill -0 "$load_pid" 2>/dev/null ||
    fail "the load ended early: $(tail -n 5 "$work/load.log")"
  kill -0 "$calls_pid" 2>/dev/null ||
    fail "calls.py ended early: $(tail -n 5 "$work/calls.log")"
}

# await_samples <count>: until Prometheus has scraped the server so often.
await_samples() {
  local deadline=$((SECONDS + 180)) count=0
  until ((count >= $1)); do
    ((SECONDS < deadline)) || fail "prometheus has $count samples after 180 s"
    sleep 0.5
    count="$(promtool query instant "$url" \
      'sum(count_over_time(attn_build_info[1m]))' | awk '{print $3; exit}')"
    count="${count:-0}"
  done
}

scrape() {
  exec 9<>"/dev/tcp/${server_metrics%:*}/${server_metrics##*:}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9
  sed '1,/^\r$/d' <&9 >"$work/metrics"
  exec 9>&-
  grep -q '^attn_build_info' "$work/metrics" || fail "no metrics"
  promtool check metrics <"$work/metrics"
}

start_server "$bin" "--grpc-address=unix:$work/attn" \
  --metrics-address=127.0.0.1:0 --http-address= --drain-delay=0s \
  --log-requests=false --max-message-bytes=67108864 \
  --max-inflight-bytes=134217728 --max-concurrent-requests=12 \
  --max-queue-size=12
configure_prometheus
(call --layer "$work/layer.npy")
"$bin/attn" --address "$server_address" layer put panels \
  "weight=$work/layer.npy"
start_prometheus
load >"$work/load.log" 2>&1 &
load_pid=$!
# The load tester tries every class once first, and wants no refusal then.
await_samples 3
(call "$server_address" panels weight) >"$work/calls.log" 2>&1 &
calls_pid=$!
# Enough for rates over ten seconds.
await_samples 15
status=0
for dashboard in "$dashboards"/*.json; do
  "$here/panels.py" "$url" "$dashboard" || status=1
done
"$here/live_rules.py" "$url" "$rules" || status=1
scrape
"$here/metric_names.py" "$work/metrics" "$dashboards" "$rules" || status=1
check_load
((status == 0))
