"""A decode against a cache on the server: a prompt of two tokens, then a third."""
import sys

import numpy as np

from attn_client import AttnError, Session

# All that may have the session: when one dies, the next goes on.
addresses = sys.argv[1:] or ["127.0.0.1:8001"]
# [1, heads, tokens, features]
prompt = np.array([[[[1, 0], [0, 1]]]], np.float32)
token = np.array([[[[1, 1]]]], np.float32)

try:
    with Session(addresses, q_heads=1, q_dim=2, causal=True) as session:
        session.step(prompt, prompt, prompt)  # q, k and v
        session.step(-token, -token, -token)
        session.rollback(2)  # That was a wrong guess: only the prompt stays.
        output = session.step(token, token, token)
except AttnError as error:
    sys.exit(f"session: {error.reason or error.code.name}: {error}")

print(*output.ravel(), "after", session.moves, "moves")
