# Shared by the scripts of deploy/, tests/ and .ci/. Source it; it runs nothing.
# shellcheck shell=bash

ATTN_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf 'attn: %s\n' "$*"; }

fail() {
  printf 'attn: error: %s\n' "$*" >&2
  exit 1
}

# The least of: the memory that is free and the memory that the container may
# use, in MiB.
free_memory_mib() {
  local free limit
  free="$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)"
  for limit in /sys/fs/cgroup/memory.max \
    /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    [[ -r "$limit" ]] || continue
    limit="$(cat "$limit")"
    # "max", or version 1's huge number, is no limit.
    [[ "$limit" =~ ^[0-9]{1,14}$ ]] || continue
    limit=$((limit / 1048576))
    if ((limit < free)); then free="$limit"; fi
  done
  echo "$free"
}

# As many compilers at once as there are cores, and no more than memory holds:
# a file that includes gRPC takes up to 1.5 GB.
build_jobs() {
  local cores jobs
  cores="$(nproc)"
  jobs=$(($(free_memory_mib) / 1536))
  if ((jobs < 1)); then jobs=1; fi
  echo $((cores < jobs ? cores : jobs))
}

# build_preset <preset> [target...]: configures build/<preset> and builds it.
build_preset() {
  local preset="$1"
  local dir="$ATTN_ROOT/build/$preset"
  local fresh=()
  shift
  check_writable "$dir"
  # A checkout that was moved or copied brings a cache that names its old place.
  if [[ -f "$dir/CMakeCache.txt" ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ATTN_ROOT" \
      "$dir/CMakeCache.txt"; then
    fresh=(--fresh)
  fi
  say "configuring $preset"
  (cd "$ATTN_ROOT" && run_logged cmake "${fresh[@]}" --preset "$preset")
  say "building $preset with $(build_jobs) jobs"
  (cd "$ATTN_ROOT" && cmake --build --preset "$preset" -j "$(build_jobs)" \
    ${1:+--target "$@"})
}

# Fails with one line if the build folder belongs to someone else.
check_writable() {
  local dir="$1"
  while [[ ! -e "$dir" ]]; do dir="$(dirname "$dir")"; done
  [[ -w "$dir" ]] && return
  fail "$dir is not writable by $(id -un): run" \
    "'sudo chown -R $(id -un) $dir', or run this script as its owner"
}

# Runs a command; shows what it printed only if it fails.
run_logged() {
  local log status=0
  log="$(mktemp)"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status != 0)); then cat "$log" >&2; fi
  rm -f "$log"
  return "$status"
}
