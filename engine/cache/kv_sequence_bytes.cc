// KvSequence's way to other memory and back.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cache/kv_sequence.h"
#include "engine/core/field_error.h"
#include "engine/runtime/out_of_memory.h"

namespace attn {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

int64_t BlocksFor(int64_t tokens) {
  return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

// The bytes of one token in one head of a part of a block.
struct RowsPart {
  int64_t offset;
  int64_t row_bytes;
};

std::array<RowsPart, 4> PartsOf(const KvLayout& layout) {
  const auto size = static_cast<int64_t>(SizeOf(layout.dtype));
  const auto scale =
      layout.quantized() ? static_cast<int64_t>(sizeof(float)) : 0;
  return {{{.offset = 0, .row_bytes = layout.k_dim * size},
           {.offset = layout.v_offset(), .row_bytes = layout.v_dim * size},
           {.offset = layout.k_scale_offset(), .row_bytes = scale},
           {.offset = layout.v_scale_offset(), .row_bytes = scale}}};
}

// The first `tokens` of a block; all else is zeros. Rows behind them may be
// being written by a fork, or hold what was there before.
std::vector<std::byte> CopyOf(const std::byte* block, int64_t tokens,
                              const KvLayout& layout) {
  std::vector<std::byte> copy(static_cast<size_t>(layout.block_bytes()));
  for (const RowsPart& part : PartsOf(layout)) {
    for (int64_t head = 0; head < layout.kv_heads; ++head) {
      const int64_t begin =
          part.offset + head * kKvBlockTokens * part.row_bytes;
      std::memcpy(copy.data() + begin, block + begin,
                  static_cast<size_t>(tokens * part.row_bytes));
    }
  }
  return copy;
}

constexpr size_t kMarksAtOnce = 4096;

// Calls `each` with a part of `count` bytes until all were.
template <typename Each>
absl::Status InParts(int64_t count, const Each& each) {
  std::array<std::byte, kMarksAtOnce> marks = {};
  for (auto left = static_cast<size_t>(count); left > 0;) {
    const size_t size = std::min(left, marks.size());
    absl::Status status = each(marks.data(), size);
    if (!status.ok()) return status;
    left -= size;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status KvExtent::Check() const {
  if (length < 0 || length > kMostTokens) {
    return FieldError("length", absl::StrCat(length), "0 to 2^40 tokens");
  }
  const bool none = released_begin == 0 && released_end == 0;
  const bool inside = released_begin >= 0 && released_begin < released_end &&
                      released_end < BlocksFor(length);
  if (none || inside) return absl::OkStatus();
  return FieldError(
      "released", absl::StrCat("blocks ", released_begin, " to ", released_end),
      absl::StrCat("none, or a range in front of the last of ",
                   BlocksFor(length)));
}

int64_t KvExtent::held_blocks() const {
  return BlocksFor(length) - released_blocks();
}

int64_t KvExtent::held_bytes(int64_t block_bytes) const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(held_blocks(), block_bytes, &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

int64_t KvExtent::saved_bytes(int64_t block_bytes) const {
  int64_t bytes = 0;
  if (__builtin_add_overflow(held_bytes(block_bytes), released_blocks(),
                             &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

KvExtent KvSequence::extent() const {
  return {.length = length_,
          .released_begin = released_begin_,
          .released_end = released_end_};
}

absl::Status KvSequence::Save(const KvByteSink& sink) const {
  const auto size = static_cast<size_t>(layout_.block_bytes());
  // Blocks of rows without elements have bytes that nobody writes.
  const bool whole = layout_.kv_heads > 0 && layout_.k_dim + layout_.v_dim > 0;
  for (int64_t i = 0; i < BlocksFor(length_); ++i) {
    const std::byte* const block = blocks_[static_cast<size_t>(i)].get();
    if (block == nullptr) continue;
    const int64_t tokens =
        std::min(kKvBlockTokens, length_ - i * kKvBlockTokens);
    absl::Status status;
    if (whole && tokens == kKvBlockTokens) {
      status = sink(block, size);
    } else {
      status = sink(CopyOf(block, tokens, layout_).data(), size);
    }
    if (!status.ok()) return status;
  }
  return InParts(released_end_ - released_begin_, sink);
}

absl::Status KvSequence::ReserveExtent(const KvExtent& extent) {
  absl::Status status = extent.Check();
  if (!status.ok()) return status;
  try {
    auto fresh = pool_->TakeMany(layout_.block_bytes(), extent.held_blocks());
    if (!fresh.ok()) return fresh.status();
    PlaceExtent(extent, *std::move(fresh));
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    *this = KvSequence(layout_, *pool_);
    return OutOfMemory();
  }
}

void KvSequence::PlaceExtent(const KvExtent& extent,
                             std::vector<KvBlock> fresh) {
  const auto count = static_cast<size_t>(BlocksFor(extent.length));
  blocks_.resize(count);
  pointers_.resize(count);
  auto next = fresh.begin();
  for (size_t i = 0; i < count; ++i) {
    if (static_cast<int64_t>(i) == extent.released_begin) {
      i += static_cast<size_t>(extent.released_blocks());
    }
    blocks_[i] = *std::move(next++);
    pointers_[i] = blocks_[i].get();
  }
  if (layout_.kv_heads > 0) {
    wide_row_.resize(static_cast<size_t>(
        WideRowFloats(std::max(layout_.k_dim, layout_.v_dim))));
  }
  length_ = extent.length;
  released_begin_ = extent.released_begin;
  released_end_ = extent.released_end;
  PointReleased();
}

absl::Status KvSequence::Load(const KvByteSource& source) {
  const auto size = static_cast<size_t>(layout_.block_bytes());
  for (const KvBlock& block : blocks_) {
    if (block == nullptr) continue;
    absl::Status status = source(block.get(), size);
    if (!status.ok()) return status;
  }
  return InParts(released_end_ - released_begin_, source);
}

}  // namespace attn
