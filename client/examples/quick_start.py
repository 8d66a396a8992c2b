"""The smallest Python client: three tokens attend to those before them."""
import sys

import numpy as np

from attn_client import AttentionClient, AttnError

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8001"
# [batch, heads, tokens, features]
q = k = np.array([[[[1, 0], [0, 1], [1, 1]]]], np.float32)
v = np.array([[[[1, 2], [3, 4], [5, 6]]]], np.float32)

with AttentionClient(address) as client:
    try:
        result = client.attend(q, k, v, causal=True)
    except AttnError as error:
        sys.exit(f"quick_start: {error}")

print(*result.output.ravel(), "by the kernel", result.report.kernel)
