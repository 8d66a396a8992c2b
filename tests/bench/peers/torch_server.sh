#!/bin/sh
# Starts torch_server.py in the root of setup.sh with what serves fastest there.
#
#   torch_server.sh HOST:PORT [option...]
set -eu
lib=/usr/lib/x86_64-linux-gnu
if [ -e $lib/libmkl_rt.so ]; then
  export MKL_THREADING_LAYER=GNU MKL_INTERFACE_LAYER=LP64
  export LD_PRELOAD="$lib/libgomp.so.1:$lib/libmkl_rt.so"
fi
exec python3 /opt/attn-peers/torch_server.py "$@"
