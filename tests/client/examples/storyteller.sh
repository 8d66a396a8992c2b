#!/usr/bin/env bash
# The storyteller tells the golden stories of the model that is shipped, also when
# its server is killed on the way, and says in one line what is wrong.
#
#   storyteller.sh BIN
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
work="$(mktemp -d)"
first_pid=""
first_dir=""
model=(--model "$ATTN_ROOT/server/story/model/tiny.bin"
  --tokenizer "$ATTN_ROOT/server/story/model/tok512.bin")

clean_up() {
  stop_server
  server_pid="$first_pid"
  server_dir="$first_dir"
  stop_server
  rm -rf "$work"
}
trap clean_up EXIT

serve() {
  start_server "$bin" "--grpc-address=unix:$work/$1" --metrics-address= --http-address= \
    --drain-delay=0s --compute-threads=1
}

# golden NUMBER KEY: of a golden story.
golden() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["cases"][int(sys.argv[2])][sys.argv[3]])' \
    "$ATTN_ROOT/tests/server/story/data/golden.json" "$1" "$2"
}

serve first
first_pid="$server_pid"
first_dir="$server_dir"
first_address="$server_address"
server_pid=""
server_dir=""
serve second

for number in 0 1; do
  "$bin/storyteller" --address "$first_address" "${model[@]}" --steps 128 \
    --prompt "$(golden "$number" prompt)" >"$work/story" 2>"$work/rate" ||
    fail "the storyteller failed: $(<"$work/rate")"
  golden "$number" text | diff - "$work/story" || fail "another story $number"
  grep -q "^128 tokens, .* tokens per second" "$work/rate" ||
    fail "no rate: $(<"$work/rate")"
done

# pipe fill ROOM | pipe told: of the pipe on descriptor 3. Fills it up to ROOM
# bytes with zeros, whose number is printed; waits until half of them are used.
pipe() {
  python3 - "$@" <<'END'
import fcntl, os, struct, sys, termios, time
capacity = fcntl.fcntl(3, 1032)  # F_GETPIPE_SZ
room = int(sys.argv[2])
if sys.argv[1] == "fill":
    print(os.write(3, bytes(capacity - room)))
    sys.exit()
for _ in range(6000):
    held = fcntl.ioctl(3, termios.FIONREAD, bytes(4))
    if struct.unpack("i", held)[0] >= capacity - room // 2:
        sys.exit()
    time.sleep(0.01)
sys.exit("the story does not begin")
END
}

# Killed when the story has begun: the rest comes from the other server. It cannot
# be told before, as the pipe has room for its first words alone.
room=60
mkfifo "$work/pipe"
exec 3<>"$work/pipe"
zeros="$(pipe fill "$room")"
"$bin/storyteller" --address "$first_address,$server_address" "${model[@]}" \
  --steps 128 --prompt "$(golden 0 prompt)" >"$work/pipe" 2>"$work/rate" 3>&- &
story_pid="$!"
pipe told "$room"
kill -KILL "$first_pid"
wait "$first_pid" || true
first_pid=""
exec 4<"$work/pipe"
exec 3>&-
tail -c "+$((zeros + 1))" <&4 >"$work/story"
exec 4<&-
wait "$story_pid" || fail "the storyteller failed: $(<"$work/rate")"
golden 0 text | diff - "$work/story" || fail "another story: $(<"$work/rate")"
grep -q "went on elsewhere 1 times" "$work/rate" ||
  fail "the story was told by one server: $(<"$work/rate")"

# complains CODE WORD [flag...]: one line on standard error, and nothing else.
complains() {
  local code="$1" word="$2" status=0
  shift 2
  "$bin/storyteller" "$@" >"$work/output" 2>"$work/error" || status=$?
  [[ "$status" == "$code" && ! -s "$work/output" &&
    "$(wc -l <"$work/error")" == 1 && "$(<"$work/error")" == *"$word"* ]] ||
    fail "$* gives $status: $(<"$work/error")"
}
complains 2 --model
complains 2 nowhere --address nowhere "${model[@]}"
complains 2 "$work" --model "$work" --tokenizer "$work"
complains 2 tokenizer.pieces --model "${model[1]}" --tokenizer "${model[1]}"
complains 4 "$work/none" --address "unix:$work/none" "${model[@]}"
