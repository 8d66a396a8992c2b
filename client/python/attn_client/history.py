"""What a session was given, to give it to another."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Iterator, List, Tuple

import numpy as np

from .tensors import Array

# Small enough that what a rollback leaves unused is little, and large enough that
# a page's own size does not count.
_PAGE_TOKENS = 64


@dataclass(frozen=True)
class ReplayLimits:
    """What a part may have.

    more_row_bytes: what a token of a layer costs beside its k and v.
    """

    max_tokens: int
    max_bytes: int
    more_row_bytes: int


@dataclass
class ReplayPart:
    """Some tokens of some layers, all from the same position on."""

    position: int
    tokens: int
    layers: List[Tuple[int, Array, Array]]
    """Layer, k and v: [1, tokens, kv_heads, dim]."""


@dataclass
class _Page:
    """Room for tokens one after the other, [room, kv_heads, dim]."""

    k: Array
    v: Array

    @property
    def row_bytes(self) -> int:
        """Of a token."""
        return (self.k.nbytes + self.v.nbytes) // len(self.k)

    def is_like(self, k: Array, v: Array) -> bool:
        """Whether tokens of both can be in one tensor."""
        return (
            (self.k.dtype, self.v.dtype) == (k.dtype, v.dtype)
            and self.k.shape[1:] == k.shape[1:]
            and self.v.shape[1:] == v.shape[1:]
        )


@dataclass
class _PageUse:
    """The first `tokens` tokens of a page."""

    page: _Page
    begin: int
    tokens: int = 0
    # Not to be written to.
    shared: bool = False

    @property
    def end(self) -> int:
        return self.begin + self.tokens


@dataclass
class _LayerTokens:
    length: int = 0
    uses: List[_PageUse] = field(default_factory=list)
    # Of `uses`.
    begins: List[int] = field(default_factory=list)

    def index_at(self, position: int) -> int:
        """Of the use that has the token."""
        return bisect.bisect_right(self.begins, position) - 1

    def open_page(self, k: Array, v: Array) -> _PageUse:
        """One that can take the next tokens, if they are like those."""
        if self.uses:
            last = self.uses[-1]
            room = last.tokens < len(last.page.k)
            if room and not last.shared and last.page.is_like(k, v):
                return last
        page = _Page(
            np.empty((_PAGE_TOKENS, *k.shape[1:]), k.dtype),
            np.empty((_PAGE_TOKENS, *v.shape[1:]), v.dtype),
        )
        begin = self.uses[-1].end if self.uses else 0
        self.uses.append(_PageUse(page, begin))
        self.begins.append(begin)
        return self.uses[-1]

    def alike_from(self, position: int) -> tuple[int, _Page]:
        """How many tokens from there on are alike, and one of their pages."""
        first = self.index_at(position)
        page = self.uses[first].page
        end = position
        for use in self.uses[first:]:
            if not page.is_like(use.page.k, use.page.v):
                break
            end = use.end
        return end - position, page

    def gather(self, position: int, tokens: int) -> tuple[Array, Array]:
        """k and v of tokens that are alike, copied."""
        end = position + tokens
        k: list[Array] = []
        v: list[Array] = []
        for use in self.uses[self.index_at(position) :]:
            if use.begin >= end:
                break
            rows = slice(max(position - use.begin, 0), min(end, use.end) - use.begin)
            k.append(use.page.k[rows])
            v.append(use.page.v[rows])
        return np.concatenate(k)[np.newaxis], np.concatenate(v)[np.newaxis]


class ReplayHistory:
    """k and v of every token of every layer, as they were sent. What a session
    keeps of a token follows from its k, its v and its position alone, so that
    parts of any size make the same cache, bit for bit: how the steps were cut is
    not kept.

    When k and v have more than `max_bytes` they are let go of; the lengths go on.
    For one thread at a time; what share() returns is apart from it.
    """

    def __init__(self, layers: int, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.complete = True
        self._layers = [_LayerTokens() for _ in range(layers)]

    @property
    def layers(self) -> int:
        return len(self._layers)

    def length(self, layer: int) -> int:
        return self._layers[layer].length

    def longest(self) -> int:
        """Tokens of the longest layer."""
        return max(layer.length for layer in self._layers)

    def share(self) -> ReplayHistory:
        """Another with the same tokens, whose memory both share from then on:
        neither writes to it."""
        other = ReplayHistory(self.layers, self.max_bytes)
        other.bytes = self.bytes
        other.complete = self.complete
        for ours, theirs in zip(self._layers, other._layers):
            theirs.length = ours.length
            theirs.begins = list(ours.begins)
            for use in ours.uses:
                use.shared = True
                theirs.uses.append(_PageUse(use.page, use.begin, use.tokens, True))
        return other

    def append(self, layer: int, k: Array, v: Array) -> None:
        """Copies k and v, [n, kv_heads, dim], to the end of a layer."""
        to = self._layers[layer]
        tokens = len(k)
        to.length += tokens
        if not self.complete:
            return
        if self.bytes + k.nbytes + v.nbytes > self.max_bytes:
            self.complete = False
            self.bytes = 0
            for each in self._layers:
                each.uses, each.begins = [], []
            return
        self.bytes += k.nbytes + v.nbytes
        first = 0
        while first < tokens:
            use = to.open_page(k, v)
            count = min(tokens - first, len(use.page.k) - use.tokens)
            rows = slice(use.tokens, use.tokens + count)
            use.page.k[rows] = k[first : first + count]
            use.page.v[rows] = v[first : first + count]
            use.tokens += count
            first += count

    def truncate(self, position: int) -> None:
        """Forgets the tokens from `position` on in every layer; what is empty then
        is complete again."""
        for layer in self._layers:
            layer.length = min(layer.length, position)
            while layer.uses and layer.uses[-1].end > position:
                last = layer.uses[-1]
                stay = max(position - last.begin, 0)
                self.bytes -= (last.tokens - stay) * last.page.row_bytes
                last.tokens = stay
                if stay == 0:
                    layer.uses.pop()
                    layer.begins.pop()
        if self.longest() == 0:
            self.complete = True

    def parts(self, limits: ReplayLimits) -> Iterator[ReplayPart]:
        """Parts in an order in which an empty session can be given them, each
        within `limits`, though of one token of one layer at least. Must be
        complete."""
        end = self.longest()
        position = 0
        while position < end:
            tokens = self._tokens_of_part(position, limits)
            part = ReplayPart(position, tokens, [])
            part_bytes = 0
            for i, layer in enumerate(self._layers):
                if layer.length <= position:
                    continue
                page = layer.uses[layer.index_at(position)].page
                layer_bytes = tokens * (page.row_bytes + limits.more_row_bytes)
                if part.layers and part_bytes + layer_bytes > limits.max_bytes:
                    yield part
                    part = ReplayPart(position, tokens, [])
                    part_bytes = 0
                part.layers.append((i, *layer.gather(position, tokens)))
                part_bytes += layer_bytes
            yield part
            position += tokens

    def _tokens_of_part(self, position: int, limits: ReplayLimits) -> int:
        """As many as every layer that goes on from there has, alike."""
        tokens = limits.max_tokens
        for layer in self._layers:
            if layer.length <= position:
                continue
            alike, page = layer.alike_from(position)
            row = max(page.row_bytes + limits.more_row_bytes, 1)
            tokens = min(tokens, alike, max(limits.max_bytes // row, 1))
        return tokens
