#!/usr/bin/env bash
# Holds deploy/compose.yaml against the Compose Specification's schema and against
# what it promises; then, as root, runs it by podman-compose: calls go through
# HAProxy to both servers and none is lost while one of them stops, and Prometheus
# sees it go and come back.
#
#   tests/deploy/compose.sh [FOLDER]
#
# FOLDER is where deploy/image/build_and_run.sh kept the image of attn; without it
# nothing is run. HAProxy and Prometheus are Debian's, in images of their own under
# the names that the file has; Grafana is left out, as no package of it is there.
# Ends in "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/image/containers.sh
source "$ATTN_ROOT/deploy/image/containers.sh"

readonly here="$ATTN_ROOT/tests/deploy/compose"
readonly compose="$ATTN_ROOT/deploy/compose.yaml"
readonly tools="$ATTN_ROOT/build/tools/compose"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3
export PYTHONDONTWRITEBYTECODE=1
work="$(mktemp -d)"
project="attn-test-$$"
running=false
passed=0
failed=0

# check <words> <command...>: counts, and goes on whatever its outcome.
check() {
  local words="$1" status=0
  shift
  set +e
  (set -e; "$@")
  status=$?
  set -e
  if ((status == 0)); then
    passed=$((passed + 1))
    say "passed: $words"
  else
    failed=$((failed + 1))
    say "FAILED: $words"
  fi
}

# Once for each list of versions.
install_npm() {
  cmp -s "$here/package.json" "$tools/package.json" && return
  say "installing packages of npm"
  rm -rf "$tools"
  mkdir -p "$tools/npm"
  cp "$here/package.json" "$tools/npm/"
  (cd "$tools" &&
    npm install --silent --no-audit --no-fund --no-package-lock --prefix npm)
  mv "$tools/npm/node_modules" "$tools/npm/package.json" "$tools"
}

lint() { "$tools/node_modules/.bin/dclint" --quiet "$@"; }

# Each changes the file for the worse.
readonly mistakes=(
  's/^    read_only: true/    read_onyl: true/'
  's/^(    mem_limit:).*/\1 [512m]/'
  's/service_healthy/service_helthy/'
  's/"127.0.0.1:8001:8001"/"8001:8001"/'
)

lint_finds_faults() {
  local mistake number=0 taken
  for mistake in "${mistakes[@]}"; do
    number=$((number + 1))
    mkdir -p "$work/$number"
    sed -E "$mistake" "$compose" >"$work/$number/compose.yaml"
    ! cmp -s "$compose" "$work/$number/compose.yaml" ||
      fail "nothing to change: $mistake"
  done
  # All at once: most of its time goes to its start.
  lint --formatter json "$work"/[1-9]/compose.yaml >"$work/lint.json" || true
  taken="$("$PYTHON" -c 'import json, sys
files = json.load(sys.stdin)
print(len(files), *(file["filePath"] for file in files if not file["errorCount"]))' \
    <"$work/lint.json")"
  [[ "$taken" == "$number" ]] || fail "of how many, and which, the linter takes: $taken"
}

# make_image <name> <user> <folder of the user's> <program> <command...>: a
# program of this machine's packages, with its libraries, as the image's one.
make_image() {
  local name="$1" user="$2" folder="$3" program="$4" words
  shift 4
  rm -rf "$work/root" "$work/state"
  run_logged "$ATTN_ROOT/deploy/image/collect.sh" "$work/root" "$work/state" \
    "$program"
  mkdir -p "$work/root/$folder"
  chown "$user" "$work/root/$folder"
  words="$(printf ', "%s"' "/usr/local/bin/${program##*/}" "$@")"
  tar -C "$work/root" -cf "$work/root.tar" .
  run_logged podman import --change "USER $user" \
    --change "ENTRYPOINT [${words#, }]" "$work/root.tar" "$name"
}

image_of() { sed -nE "s|^ +image: (.*/$1:.*)|\1|p" "$compose"; }

make_images() {
  make_image "$(image_of haproxy)" 99 var/lib/haproxy "$(command -v haproxy)" \
    -W -db -f /usr/local/etc/haproxy/haproxy.cfg
  make_image "$(image_of prometheus)" 65534 prometheus "$(command -v prometheus)" \
    --config.file=/etc/prometheus/prometheus.yml --storage.tsdb.path=/prometheus
}

# podman-compose speaks at length.
podman_compose() {
  run_logged podman-compose -p "$project" -f "$work/compose.yaml" \
    --podman-run-args=--no-healthcheck "$@"
}

container() { echo "${project}_$1_1"; }

# The published address of a service's port.
published() { podman port "$(container "$1")" "$2/tcp"; }

# The client on this machine, from the image.
attn() {
  "$root/usr/lib64/ld-linux-x86-64.so.2" \
    --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/local/bin/attn" \
    --address "$(published haproxy 8001)" --timeout 10s "$@"
}

# await <seconds> <words> <command...>
await() {
  local deadline=$((SECONDS + $1)) words="$2"
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "$words"
    sleep 0.3
  done
}

# query <PromQL>: "labels value" lines, empty if there is no series.
query() {
  promtool query instant "http://$(published prometheus 9090)" "$1"
}

# equals <PromQL> <value>: whether it is one series of that value.
equals() { [[ "$(query "$1" | awk '{print $(NF-1)}')" == "$2" ]]; }

all_up() {
  equals 'count(up{job="attn"} == 1)' 2 &&
    equals 'count(up{job="haproxy"} == 1)' 1
}

on_loopback() {
  local address
  for address in "$(published haproxy 8000)" "$(published haproxy 8001)" \
    "$(published prometheus 9090)"; do
    [[ "$address" == 127.0.0.1:* ]] || fail "published at $address"
  done
  [[ -z "$(podman port "$(container attn-1)")" ]] || fail "a server is published"
}

serves() {
  await 60 "HAProxy has no server after 60 s" attn health
  attn info >/dev/null
}

attend() {
  attn attend --input "$ATTN_ROOT/deploy/example/example.npz" --causal --compare
}

# attend_times <count>: one call after the other; fails with the first that fails.
attend_times() {
  local call
  for ((call = 0; call < $1; ++call)); do
    attend >"$work/call.log" 2>&1 ||
      fail "call $call of $1: $(tail -n 1 "$work/call.log")"
  done
}

reaches_both() {
  attend_times 8
  await 30 "not both servers had calls: $(query attn_requests_total)" equals \
    'count(sum by (instance) (attn_requests_total{method="Attend",code="OK"}) > 0)' 2
}

shows_page() {
  local page
  page="$(curl --silent --fail --max-time 10 \
    "http://$(published haproxy 8000)/")"
  [[ "$page" == *"<html"* ]]
}

sees_all() { await 60 "not all targets are up: $(query up)" all_up; }

sees_haproxy() {
  await 30 "HAProxy's exporter tells of no two servers" equals \
    'count(haproxy_server_status{proxy="attn_calls",state="UP"} == 1)' 2
}

# inside <service> <argument of attn...>
inside() { podman exec "$(container "$1")" attn "${@:2}"; }

# field <name>: of the JSON on standard input.
field() {
  "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# A session of attn-1, which tells who has it.
tells_owner() {
  inside attn-1 --json session open --q-heads 2 --q-dim 8 --causal >"$work/session"
  inside attn-1 session step --random 3 \
    --session "$(field session_id <"$work/session")" >/dev/null
  [[ "$(field owner <"$work/session")" == attn-1:8001 ]]
}

keeps_session() {
  inside attn-1 --json session get \
    --session "$(field session_id <"$work/session")" | field lengths |
    grep -qxF '[3]'
}

# attend_while <file>: as long as it is there.
attend_while() {
  while [[ -e "$1" ]]; do attend_times 1; done
}

# One server stops as an upgrade stops it, under a load that must not notice.
loses_nothing() {
  touch "$work/stopping"
  attend_while "$work/stopping" &
  local load=$!
  podman stop --time 48 "$(container attn-1)" >/dev/null
  rm "$work/stopping"
  wait "$load"
  [[ "$(podman inspect --format '{{.State.ExitCode}}' \
    "$(container attn-1)")" == 0 ]]
  attend_times 4
}

sees_one_go() {
  await 60 "Prometheus did not see attn-1 go" equals \
    'up{job="attn",instance="attn-1:8002"}' 0
  equals 'up{job="attn",instance="attn-2:8002"}' 1
}

sees_it_come_back() {
  podman start "$(container attn-1)" >/dev/null
  await 60 "Prometheus did not see attn-1 come back" all_up
  await 30 "HAProxy did not take attn-1 back" equals \
    'count(haproxy_server_status{proxy="attn_calls",state="UP"} == 1)' 2
}

run_it() {
  use_containers "$1"
  podman image exists "$ATTN_IMAGE" ||
    fail "no image in $1: run deploy/image/build_and_run.sh $1"
  make_images
  "$PYTHON" "$here/runnable.py" "$compose" grafana >"$work/compose.yaml"
  say "left out: grafana, whose image is not at hand"
  root="$(podman image mount "$ATTN_IMAGE")"
  running=true
  podman_compose up --detach
  check "published on loopback alone" on_loopback
  check "calls go through HAProxy" serves
  check "Prometheus has both servers and HAProxy" sees_all
  check "both servers get calls" reaches_both
  check "the page comes through HAProxy" shows_page
  check "HAProxy's exporter tells of both servers" sees_haproxy
  check "a session tells which server has it" tells_owner
  check "no call is lost while a server stops" loses_nothing
  check "Prometheus sees one server go" sees_one_go
  check "Prometheus and HAProxy see it come back" sees_it_come_back
  check "its session is there again" keeps_session
  ((failed == 0)) || show_logs
}

show_logs() {
  local service
  for service in haproxy prometheus attn-1 attn-2; do
    say "the last words of $service:"
    podman logs --tail 15 "$(container "$service")" 2>&1 || true
  done
}

# By hand, as what is tested is over and podman-compose takes its time.
clean_up() {
  local filter="label=io.podman.compose.project=$project"
  if "$running"; then
    podman ps --all --quiet --filter "$filter" |
      xargs --no-run-if-empty podman rm --force --time 0 >/dev/null 2>&1 || true
    podman volume ls --quiet --filter "$filter" |
      xargs --no-run-if-empty podman volume rm >/dev/null 2>&1 || true
    podman network rm "${project}_default" >/dev/null 2>&1 || true
    podman image unmount "$ATTN_IMAGE" >/dev/null 2>&1 || true
    podman rmi "$(image_of haproxy)" "$(image_of prometheus)" \
      >/dev/null 2>&1 || true
  fi
  rm -rf "$work"
}
trap clean_up EXIT

install_npm
check "the file is valid by the Compose Specification" lint "$compose"
check "the linter finds what is wrong" lint_finds_faults
check "the file is as it promises" "$PYTHON" "$here/settings.py" "$compose"
check "settings.py finds what it is for" \
  "$PYTHON" "$here/settings_test.py" "$compose"
if (($# == 0)); then
  say "not run: no FOLDER with an image is given"
elif [[ "$(id -u)" != 0 ]]; then
  say "not run: containers need root here"
else
  run_it "$(cd "$1" && pwd)"
fi
say "$passed passed, $failed failed"
((failed == 0))
