"""What a session keeps to be replayed: every token once, whatever happened."""

from __future__ import annotations

import numpy as np
import pytest

from attn_client.history import ReplayHistory, ReplayLimits

HEADS, K_DIM, V_DIM = 2, 3, 5
ROW_BYTES = HEADS * (K_DIM + V_DIM) * 4
WIDE = ReplayLimits(max_tokens=10**6, max_bytes=10**9, more_row_bytes=0)
UNBOUNDED = 10**9


def rows(rng, tokens, dtype=np.float32):
    k = rng.standard_normal((tokens, HEADS, K_DIM)).astype(dtype)
    v = rng.standard_normal((tokens, HEADS, V_DIM)).astype(dtype)
    return k, v


def replayed(history, limits=WIDE):
    """k and v of each layer, put together from the parts as an empty session would
    take them: each part goes on where its layers are."""
    layers = [[] for _ in range(history.layers)]
    for part in history.parts(limits):
        for layer, k, v in part.layers:
            assert len(k) == len(v) == 1
            assert k.shape[1] == v.shape[1] == part.tokens
            assert sum(len(k) for k, _ in layers[layer]) == part.position
            layers[layer].append((k[0], v[0]))
    return layers


def assert_holds(history, layer, k, v, limits=WIDE):
    parts = replayed(history, limits)[layer]
    assert history.length(layer) == len(k)
    assert b"".join(k.tobytes() for k, _ in parts) == k.tobytes()
    assert b"".join(v.tobytes() for _, v in parts) == v.tobytes()


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 300])
def test_tokens_come_back_however_they_were_cut(rng, chunk):
    k, v = rows(rng, 300)
    history = ReplayHistory(2, UNBOUNDED)
    for begin in range(0, 300, chunk):
        history.append(1, k[begin : begin + chunk], v[begin : begin + chunk])
    assert_holds(history, 1, k, v)
    assert (history.length(0), history.longest()) == (0, 300)
    assert history.bytes == 300 * ROW_BYTES


def test_it_copies_what_it_is_given(rng):
    k, v = rows(rng, 7)
    history = ReplayHistory(1, UNBOUNDED)
    given = k.copy(), v.copy()
    history.append(0, *given)
    for array in given:
        array[:] = 0
    assert_holds(history, 0, k, v)


@pytest.mark.parametrize("position", [0, 1, 64, 100, 128, 129, 150])
def test_what_is_cut_off_is_gone_and_others_take_its_place(rng, position):
    k, v = rows(rng, 150)
    history = ReplayHistory(1, UNBOUNDED)
    history.append(0, k, v)
    history.truncate(position)
    assert_holds(history, 0, k[:position], v[:position])
    assert history.bytes == position * ROW_BYTES
    more_k, more_v = rows(rng, 70)
    history.append(0, more_k, more_v)
    assert_holds(
        history,
        0,
        np.concatenate([k[:position], more_k]),
        np.concatenate([v[:position], more_v]),
    )


@pytest.mark.parametrize("stays", [(100, 90), (90, 100), (90, 90)])
def test_those_that_share_do_not_write_to_each_other(rng, stays):
    k, v = rows(rng, 100)
    one = ReplayHistory(1, UNBOUNDED)
    one.append(0, k, v)
    tails = [rows(rng, 80) for _ in stays]
    both = [one, one.share()]
    for history, stay, tail in zip(both, stays, tails):
        history.truncate(stay)
        history.append(0, *tail)
    for history, stay, (more_k, more_v) in zip(both, stays, tails):
        assert_holds(
            history,
            0,
            np.concatenate([k[:stay], more_k]),
            np.concatenate([v[:stay], more_v]),
        )
        assert history.bytes == (stay + 80) * ROW_BYTES


def test_parts_are_within_their_limits(rng):
    history = ReplayHistory(3, UNBOUNDED)
    given = {0: rows(rng, 500), 1: rows(rng, 120), 2: rows(rng, 500)}
    for layer, (k, v) in given.items():
        history.append(layer, k, v)
    limits = ReplayLimits(max_tokens=50, max_bytes=40 * ROW_BYTES, more_row_bytes=100)
    for part in history.parts(limits):
        assert part.tokens <= 50
        size = sum(k.nbytes + v.nbytes + part.tokens * 100 for _, k, v in part.layers)
        assert size <= limits.max_bytes
    for layer, (k, v) in given.items():
        assert_holds(history, layer, k, v, limits)


def test_a_token_that_is_larger_than_a_part_goes_alone(rng):
    k, v = rows(rng, 3)
    history = ReplayHistory(2, UNBOUNDED)
    for layer in (0, 1):
        history.append(layer, k, v)
    limits = ReplayLimits(max_tokens=100, max_bytes=1, more_row_bytes=0)
    parts = list(history.parts(limits))
    assert [(part.tokens, len(part.layers)) for part in parts] == [(1, 1)] * 6
    assert_holds(history, 1, k, v, limits)


def test_a_part_has_one_dtype(rng):
    kinds = [np.float32, np.float16, np.uint16, np.float32]
    given = [rows(rng, 70, kind) for kind in kinds]
    history = ReplayHistory(1, UNBOUNDED)
    for k, v in given:
        history.append(0, k, v)
    found = replayed(history)[0]
    assert [k.dtype for k, _ in found] == kinds
    for (k, v), (found_k, found_v) in zip(given, found):
        assert (k.tobytes(), v.tobytes()) == (found_k.tobytes(), found_v.tobytes())


def test_beyond_its_bound_it_lets_go_and_goes_on_counting(rng):
    k, v = rows(rng, 10)
    history = ReplayHistory(2, 20 * ROW_BYTES)
    history.append(0, k, v)
    history.append(1, k, v)
    assert history.complete
    assert history.bytes == 20 * ROW_BYTES
    history.append(1, k[:1], v[:1])
    assert not history.complete
    assert (history.bytes, history.length(0), history.length(1)) == (0, 10, 11)
    history.truncate(5)
    assert not history.complete
    assert history.longest() == 5
    history.truncate(0)
    assert history.complete
    history.append(0, k, v)
    assert_holds(history, 0, k, v)
