#!/usr/bin/env bash
# Runs the Deployment of deploy/kubernetes for real, as one pod of podman, with the
# image that deploy/image/build_and_run.sh kept in FOLDER:
#
#   tests/kubernetes/play.sh FOLDER [BIN]
#
# Its user, read-only root, missing capabilities, seccomp filter, memory limit, and its
# end by TERM are looked at. Needs root, and tests/kubernetes/run.sh to have been run.
# Ends in "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/kubernetes"
readonly KUBECTL="$ATTN_ROOT/build/tools/kubernetes/kubectl"
readonly CONTAINER=attn-pod-0-attn
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3

passed=0
failed=0

# is <what> <found> <expected>
is() {
  if [[ "$2" == "$3" ]]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    say "FAILED: $1 is '$2', expected '$3'"
  fi
}

# of_process <line of /proc/PID/status>
of_process() { awk -v name="$1:" '$1 == name {print $2}' "/proc/$pid/status"; }

inspect() { podman inspect --format "$1" "$CONTAINER"; }

clean_up() {
  podman kube down "$work/deployment.yaml" >/dev/null 2>&1 ||
    podman pod rm --force attn-pod-0 >/dev/null 2>&1 || true
  rm -rf "$work"
}

await_serving() {
  local deadline=$((SECONDS + 60))
  until address="$(podman logs "$CONTAINER" 2>&1 |
    sed -nE 's/.*SERVING on ([0-9.:]+).*/\1/p')" && [[ -n "$address" ]]; do
    ((SECONDS < deadline)) || {
      podman logs "$CONTAINER" >&2
      fail "the pod is not SERVING after 60 s"
    }
    sleep 0.2
  done
}

# By podman, which would start it again if it ended by itself. A second TERM, so that
# nobody waits for calls that do not come.
stop_pod() {
  podman stop --time 45 "$CONTAINER" >/dev/null &
  sleep 0.5
  kill -TERM "$pid" 2>/dev/null || true
  wait $!
  inspect '{{.State.ExitCode}}'
}

(($# > 0)) || fail "usage: tests/kubernetes/play.sh FOLDER [BIN]"
[[ -x "$KUBECTL" ]] || fail "no kubectl: run tests/kubernetes/run.sh first"
folder="$(cd "$1" && pwd)"
bin="$(cd "${2:-$ATTN_ROOT/build/test/bin}" && pwd)"
export CONTAINERS_STORAGE_CONF="$folder/storage.conf"
export CONTAINERS_CONF="$folder/containers.conf"
work="$(mktemp -d)"
trap clean_up EXIT
"$KUBECTL" kustomize "$ATTN_ROOT/deploy/kubernetes/overlays/stateless" |
  "$PYTHON" -B "$HERE/play.py" localhost/attn:dev >"$work/deployment.yaml"
run_logged podman play kube --network host "$work/deployment.yaml"
await_serving
run_logged "$bin/attn" --address "$address" --timeout 10s health
passed=$((passed + 1))
pid="$(inspect '{{.State.Pid}}')"
is "the user" "$(of_process Uid)" 10001
is "what it may do as root" "$(of_process CapEff)" 0000000000000000
is "no new privileges" "$(of_process NoNewPrivs)" 1
is "the seccomp filter" "$(of_process Seccomp)" 2
is "the read-only root" "$(inspect '{{.HostConfig.ReadonlyRootfs}}')" true
is "the memory limit" "$(inspect '{{.HostConfig.Memory}}')" $((3328 << 20))
is "the exit code after TERM" "$(stop_pod)" 0
echo "$passed passed, $failed failed"
((failed == 0))
