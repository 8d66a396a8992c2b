#!/usr/bin/env bash
# What `cmake --install` gives is what a program is built with: the project of
# client/library/README.md by find_package, and the same program by pkg-config,
# both against a server of the build.
#
#   package.sh BUILD BIN COMPILER VERSION
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

build="$1" bin="$2" compiler="$3" version="$4"
work="$(mktemp -d)"
prefix="$work/prefix"
trap 'stop_server; rm -rf "$work"' EXIT

# Every header of ours that an installed header includes is installed.
check_headers() {
  local header
  while read -r header; do
    [[ -f "$prefix/include/attn/$header" ]] ||
      fail "an installed header includes $header, which is not installed"
  done < <(grep -rhoE '#include "(client|engine|proto|server|attention)/[^"]+' \
    "$prefix/include/attn" | sed 's/.*"//' | sort -u)
}

# Nothing of the build's own: no path of it, no flag of it.
check_clean() {
  local words
  for words in "$ATTN_ROOT" "$build" Werror; do
    if grep -rnF -e "$words" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"; then
      fail "the package mentions $words"
    fi
  done
}

# shellcheck disable=SC2016
make_project() {
  mkdir "$work/project"
  sed -n '/^```cmake$/,/^```$/{/^```/d;p}' \
    "$ATTN_ROOT/client/library/README.md" >"$work/project/CMakeLists.txt"
  cp "$ATTN_ROOT/client/examples/quick_start.cc" "$work/project/main.cc"
}

# The first token sees itself alone: its output is its own value.
check_run() {
  local output
  output="$("$1" "$server_address")"
  say "$(basename "$1") says: $output"
  [[ "$output" == "1 2 "* ]] || fail "$1 does not give 1 2 first"
}

build_with_cmake() {
  say "building by find_package"
  run_logged cmake -G Ninja -S "$work/project" -B "$work/cmake" \
    "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_CXX_COMPILER=$compiler"
  run_logged cmake --build "$work/cmake"
  check_run "$work/cmake/my_client"
}

# Linked with --static and without.
build_with_pkg_config() {
  local flags way
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  say "building by pkg-config"
  [[ "$(pkg-config --modversion attn)" == "$version" ]] ||
    fail "pkg-config gives another version than $version"
  read -ra flags <<<"$(pkg-config --cflags attn)"
  run_logged "$compiler" -std=c++20 "${flags[@]}" -c "$work/project/main.cc" \
    -o "$work/main.o"
  for way in --shared --static; do
    read -ra flags <<<"$(pkg-config --libs "${way/--shared/--print-errors}" attn)"
    run_logged "$compiler" "$work/main.o" "${flags[@]}" -o "$work/pc$way"
    check_run "$work/pc$way"
  done
}

check_programs() {
  local program
  run_logged cmake --install "$build" --prefix "$work/all"
  for program in attn attn-server; do
    "$work/all/bin/$program" --version | grep -qF "$version" ||
      fail "the installed $program is not of version $version"
  done
}

run_logged cmake --install "$build" --prefix "$prefix" --component client
[[ ! -e "$prefix/bin" ]] || fail "the library brings programs along"
check_headers
check_clean
make_project
start_server "$bin" "--grpc-address=unix:$work/attn" --metrics-address= --http-address= \
  --drain-delay=0s
build_with_cmake
build_with_pkg_config
check_programs
