#!/usr/bin/env bash
# Builds the image and runs it the way a cluster would, without a container
# engine's daemon: makes its own base of Debian 12, builds with buildah, runs
# with podman, looks at what is in the image and at the process from outside,
# and asks it for health, the example and its metrics. Needs root.
#
#   deploy/image/build_and_run.sh [FOLDER]
#
# FOLDER keeps the base and the image for the next run; without it both are
# removed. A compiler cache of this machine is used if there is one.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# shellcheck source=deploy/image/containers.sh
source "$ATTN_ROOT/deploy/image/containers.sh"

# What a registry shows as the image's size is less, as it is packed.
readonly most_megabytes=150
readonly user=10001
# As a cluster would start it, and without the delay that only a load balancer
# needs.
readonly locked=(--detach --read-only --cap-drop all
  --security-opt no-new-privileges --memory 1g --env ATTN_DRAIN_DELAY=0s)
containers=()
root=""
work=""

revision() {
  git -c safe.directory='*' rev-parse HEAD 2>/dev/null || echo unknown
}

# The compiler cache of whoever runs this hits if the compiler is the same.
cache_arguments() {
  local folder
  folder="$(ccache --get-config cache_dir 2>/dev/null || true)"
  [[ -d "$folder" ]] || return 0
  printf '%s\n' --build-arg CCACHE_DIR=/ccache --volume "$folder:/ccache" \
    --build-arg "LANG=${LANG:-}"
}

build() {
  local cache started="$SECONDS"
  mapfile -t cache < <(cache_arguments)
  say "building $ATTN_IMAGE"
  build_image "$ATTN_IMAGE" Dockerfile . "${cache[@]}" \
    --build-arg REVISION="$(revision)" \
    --build-arg CREATED="$(date --utc +%Y-%m-%dT%H:%M:%SZ)"
  say "built in $((SECONDS - started)) s"
}

check_size() {
  local megabytes
  megabytes="$(image_megabytes "$ATTN_IMAGE")"
  ((megabytes <= most_megabytes)) ||
    fail "the image is $megabytes MB, more than $most_megabytes MB"
  say "the image is $megabytes MB"
}

label() {
  podman image inspect \
    --format "{{index .Labels \"org.opencontainers.image.$1\"}}" "$ATTN_IMAGE"
}

check_labels() {
  local name
  for name in title description licenses version revision created; do
    [[ -n "$(label "$name")" ]] || fail "the image has no label $name"
  done
  [[ "$(label revision)" == "$(revision)" ]] || fail "it has another's revision"
}

# Two programs, and nothing else that can be started: no shell, nothing setuid.
check_programs() {
  local programs
  programs="$(cd "$root" && find . -type f -perm /111 ! -name '*.so' \
    ! -name '*.so.*' | sort | xargs)"
  [[ "$programs" == "./usr/local/bin/attn ./usr/local/bin/attn-server" ]] ||
    fail "the image has other programs than its two: $programs"
  [[ -z "$(find "$root" -perm /6000)" ]] || fail "the image has setuid files"
}

# Each library is from a package that a scanner finds, with its licence, and is
# as that package has it.
check_packages() {
  local status="$root/var/lib/dpkg/status.d" dpkg="$work/dpkg" package known
  mkdir -p "$dpkg/updates" "$dpkg/info"
  find "$status" -type f ! -name '*.md5sums' -exec sh -c \
    'for file; do cat "$file"; echo; done' sh {} + >"$dpkg/status"
  mapfile -t known < <(dpkg-query --admindir="$dpkg" -W -f '${Package}\n')
  ((${#known[@]} > 1)) || fail "no packages are known in the image"
  for package in "${known[@]}"; do
    [[ -s "$root/usr/share/doc/$package/copyright" ]] ||
      fail "the image has no licence of $package"
  done
  (cd "$root" && cat "$status"/*.md5sums | md5sum --check --quiet -)
  diff <(cd "$root" && find usr/lib usr/lib64 -name '*.so*' -type f | sort) \
    <(cut -c 35- "$status"/*.md5sums | sed -nE 's/^lib/usr\/lib/;/\.so/p' | sort) ||
    fail "the image has libraries of no package"
  say "libraries and files of ${#known[@]} packages, each with its licence"
}

check_files() {
  root="$(podman image mount "$ATTN_IMAGE")"
  check_programs
  check_packages
  (($(grep -c BEGIN "$root/etc/ssl/certs/ca-certificates.crt") > 50)) ||
    fail "the image trusts hardly any certificate"
  "$ATTN_ROOT/deploy/image/old_cpu.sh" "$root/usr/local/bin" "$root"
  podman image unmount "$ATTN_IMAGE" >/dev/null
}

# start <argument of podman run...>: sets container. Where there is no systemd,
# podman complains that nobody will ask the health check, and goes on: we do.
start() {
  container="$(podman run "${locked[@]}" "$@" 2>"$work/podman.log")" ||
    fail "podman run failed: $(cat "$work/podman.log")"
  containers+=("$container")
}

property() { podman inspect --format "$1" "$container"; }

# By the command that the image says, as an engine would.
await_health() {
  local deadline=$((SECONDS + 60))
  until podman healthcheck run "$container" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || {
      podman logs "$container" >&2
      fail "the container is not healthy after 60 s"
    }
    sleep 0.1
  done
}

# The seconds from the time given to the server's own line.
seconds_to_serving() {
  local line
  line="$(podman logs "$container" 2>&1 | grep -m 1 'SERVING on')"
  echo "$(date --date="${line%% *}" +%s.%N) $1" | awk '{printf "%.2f", $1 - $2}'
}

# Version and vectors, as the server's log says.
printed() {
  podman logs "$container" 2>&1 |
    sed -nE 's/.*attn-server ([0-9.]+): ([A-Z0-9_]+), oneDNN.*/\1 \2/p'
}

# is <field of /proc/PID/status> <regular expression>
is() {
  grep -qE "^$1:[[:space:]]+$2" "/proc/$pid/status" ||
    fail "the process has $(grep "^$1:" "/proc/$pid/status"), not $2"
}

# What the kernel says of the process.
check_process() {
  local ids="(${user}[[:space:]]*){4}$" set
  pid="$(property '{{.State.Pid}}')"
  is Uid "$ids"
  is Gid "$ids"
  for set in CapInh CapPrm CapEff CapBnd CapAmb; do is "$set" '0+$'; done
  is NoNewPrivs '1$'
  touch "/proc/$pid/root/probe" 2>/dev/null && fail "its root can be written"
  say "user $user, no capabilities, no new privileges, read-only"
}

scrape() {
  exec 9<>"/dev/tcp/$1/$2"
  printf 'GET /metrics HTTP/1.0\r\nHost: %s\r\n\r\n' "$1" >&9
  cat <&9
  exec 9>&-
}

check_calls() {
  local address
  run_logged podman exec "$container" attn attend --causal --compare \
    --input /example/example.npz || fail "the example differs"
  address="$(property '{{.NetworkSettings.IPAddress}}')"
  scrape "$address" 8002 | grep -q '^attn_build_info' ||
    fail "no metrics at $address:8002"
}

check_stop() {
  local code
  run_logged podman stop --time 40 "$container"
  code="$(property '{{.State.ExitCode}}')"
  [[ "$code" == 0 ]] || fail "it stopped with exit code $code, not 0"
  # Without a server the health check must say so.
  podman healthcheck run "$container" >/dev/null 2>&1 &&
    fail "what has stopped is healthy"
  say "stopped by TERM with exit code 0"
}

run_plain() {
  local before version isa
  before="$(date +%s.%N)"
  start --volume "$ATTN_ROOT/deploy/example:/example:ro" "$ATTN_IMAGE"
  await_health
  read -r version isa < <(printed) ||
    fail "it does not say what it computes with"
  [[ "$version" == "$(label version)" ]] ||
    fail "it is version $version, its label says $(label version)"
  say "SERVING $(seconds_to_serving "$before") s after podman run, vectors: $isa"
  check_process
  check_calls
  check_stop
}

make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=attn.test -addext subjectAltName=DNS:attn.test \
    -keyout "$work/server.key" -out "$work/server.pem" 2>/dev/null
  chown "$user" "$work/server.key"
}

# TLS as the image's health check sees it, by the certificates that the image
# trusts; sessions and a picture in the one folder that is the user's own.
run_with_files() {
  local folder=/var/lib/attn
  make_certificate
  start --volume "$ATTN_ROOT/deploy/example:/example:ro" \
    --volume "$work/server.pem:/tls/server.pem:ro" \
    --volume "$work/server.key:/tls/server.key:ro" \
    --volume "$work/server.pem:/etc/ssl/certs/ca-certificates.crt:ro" \
    --volume "attn-state:$folder" --env ATTN_TLS_CA=system \
    --env ATTN_TLS_SERVER_NAME=attn.test "$ATTN_IMAGE" \
    --tls-cert=/tls/server.pem --tls-key=/tls/server.key \
    --session-dir="$folder/sessions"
  await_health
  run_logged podman exec "$container" attn session open --q-heads 2 --kv-heads 2 \
    --q-dim 8 --causal
  run_logged podman exec "$container" attn heatmap --input /example/example.npz --causal \
    --output "$folder/heads.png"
  check_stop
  folder="$(podman volume inspect --format '{{.Mountpoint}}' attn-state)"
  [[ -n "$(find "$folder/sessions" -type f -size +0)" ]] ||
    fail "the session did not go to the disk when the server stopped"
  file --brief "$folder/heads.png" | grep -q '^PNG image' || fail "no picture"
  say "TLS, sessions on a volume and pictures work"
}

clean_up() {
  # The store is this script's own, and so is all in it.
  if ((${#containers[@]} > 0)); then
    podman rm --force --volumes "${containers[@]}" >/dev/null 2>&1 || true
  fi
  podman volume rm --force attn-state >/dev/null 2>&1 || true
  podman image unmount --all >/dev/null 2>&1 || true
  if ! "$keep"; then
    podman rmi --all --force >/dev/null 2>&1 || true
    rm -rf "$CONTAINERS_STORE"
  fi
  rm -rf "$work"
}

main() {
  [[ "$(id -u)" == 0 ]] ||
    fail "containers need root here: run 'sudo deploy/image/build_and_run.sh'"
  cd "$ATTN_ROOT"
  deploy/install_packages.sh image
  keep=false
  work="$(mktemp -d)"
  if (($# > 0)); then
    keep=true
    mkdir -p "$1"
    use_containers "$(cd "$1" && pwd)"
  else
    use_containers "$(mktemp -d)"
  fi
  trap clean_up EXIT
  make_base
  build
  check_size
  check_labels
  check_files
  run_plain
  run_with_files
  say "the image is $(image_megabytes "$ATTN_IMAGE") MB and serves"
}

main "$@"
