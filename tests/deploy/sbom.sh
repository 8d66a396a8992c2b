#!/usr/bin/env bash
# Holds the image's bill of materials against CycloneDX's schema, and against the
# image: each library is in it once, with the sum that it has.
#
#   tests/deploy/sbom.sh FOLDER
#
# FOLDER is where deploy/image/build_and_run.sh kept the image. Needs root, npm and
# node; what comes from npm goes into build/tools/sbom. Ends in "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/image/containers.sh
source "$ATTN_ROOT/deploy/image/containers.sh"

readonly here="$ATTN_ROOT/tests/deploy/sbom"
readonly tools="$ATTN_ROOT/build/tools/sbom"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3
passed=0
failed=0

# check <words> <command...>: counts, and goes on whatever its outcome.
check() {
  local words="$1"
  shift
  if ("$@"); then
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

# Which of the files are no bill of materials.
invalid() {
  # Packages are looked for above the file that imports them.
  cp "$here/valid.mjs" "$tools/"
  node "$tools/valid.mjs" "$@"
}

is_valid() { [[ -z "$(invalid "$bill")" ]]; }

# Each changes the bill for the worse.
readonly mistakes=(
  's/"type": "library"/"type": "libary"/'
  's/"bomFormat": "CycloneDX"/"bomFormat": "SPDX"/'
  's/"alg": "SHA-256"/"alg": "SHA-2"/'
  's/"name": "libdnnl2",//'
)

finds_faults() {
  local mistake number=0
  for mistake in "${mistakes[@]}"; do
    number=$((number + 1))
    sed -E "$mistake" "$bill" >"$work/$number.json"
    ! cmp -s "$bill" "$work/$number.json" || return 1
  done
  [[ "$(invalid "$work"/[1-9].json | wc -l)" == "$number" ]]
}

# sums: "sum  path" of the files that the bill names.
sums() {
  "$PYTHON" -c 'import json, sys
bill = json.load(sys.stdin)
for part in [bill["metadata"]["component"], *bill["components"]]:
    for file in part["components"]:
        print(file["hashes"][0]["content"], file["name"][1:], sep="  ")' <"$bill"
}

has_right_sums() { (cd "$root" && sums | sha256sum --check --quiet --strict -); }

names_every_library_once() {
  diff <(sums | cut -c 67- | sed 's/^lib/usr\/lib/' |
    grep -E '\.so|/bin/' | sort) \
    <(cd "$root" && find usr/lib usr/lib64 usr/local/bin -type f \
      \( -name '*.so*' -o -path '*/bin/*' \) | sort)
}

# Every package that a scanner finds, in the version that it finds.
names_every_package() {
  diff <("$PYTHON" -c 'import json, sys
for part in json.load(sys.stdin)["components"]:
    print(part["name"], part["version"])' <"$bill" | sort) \
    <(find "$root/var/lib/dpkg/status.d" -type f ! -name '*.md5sums' -exec \
      sed -nE 's/^Package: //p; s/^Version: //p' {} + | paste -d ' ' - - | sort)
}

is_the_same_again() {
  "$PYTHON" -B "$ATTN_ROOT/deploy/image/sbom.py" "$root" \
    "$(podman image inspect --format \
      '{{index .Labels "org.opencontainers.image.version"}}' "$ATTN_IMAGE")" |
    cmp - "$bill"
}

clean_up() {
  podman image unmount "$ATTN_IMAGE" >/dev/null 2>&1 || true
  rm -rf "$work"
}

(($# == 1)) || fail "usage: tests/deploy/sbom.sh FOLDER"
if [[ "$(id -u)" != 0 ]]; then
  say "skipped: containers need root here"
  exit 0
fi
install_npm
use_containers "$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap clean_up EXIT
root="$(podman image mount "$ATTN_IMAGE")"
bill="$root/usr/share/doc/attn/sbom.cdx.json"
check "valid by CycloneDX 1.5" is_valid
check "what is not valid is found" finds_faults
check "each file has its sum" has_right_sums
check "each library and program is named once" names_every_library_once
check "each package is named" names_every_package
check "the same image has the same bill" is_the_same_again
say "$passed passed, $failed failed"
((failed == 0))
