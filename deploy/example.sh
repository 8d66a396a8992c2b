# The shipped example as one command. Source it after deploy/common.sh.
# shellcheck shell=bash

# run_example <bin> <address>: prints the result; fails if it is not the
# expected one.
run_example() {
  local folder="$ATTN_ROOT/deploy/example"
  "$1/attn" --address "$2" attend --input "$folder/example.npz" --causal \
    --compare --tokens "$folder/tokens.json" --heatmap --head 1
}
