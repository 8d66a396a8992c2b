#include "engine/cache/kv_sequence.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/out_of_memory.h"

namespace attn {
namespace {

// What an axis of a call may have at most (engine/core/call_volume.h).
constexpr int64_t kMaxTokens = int64_t{1} << 40;

// Whether nobody else has the block. The copy that comes and goes orders what
// others did with it before what its owner does now: use_count() alone does
// not.
bool IsAlone(const KvBlock& block) {
  if (block.use_count() != 1) return false;
  KvBlock(block).reset();
  return true;
}

template <typename T>
void Grow(std::vector<T>& list, size_t size) {
  if (size > list.capacity()) list.reserve(std::max(size, 2 * list.capacity()));
}

KvRowSource RowsOf(const TensorView& tensor, int64_t head, int64_t token) {
  const int64_t element = head * tensor.strides[1] + token * tensor.strides[2];
  return {.data = tensor.data +
                  element * static_cast<int64_t>(SizeOf(tensor.dtype)),
          .dtype = tensor.dtype,
          .row_stride = tensor.strides[2],
          .element_stride = tensor.strides[3]};
}

// Rows of one head of one tensor of a block.
KvRowTarget RowsAt(std::byte* block, DType dtype, int64_t offset,
                   int64_t scale_offset, int64_t width, int64_t row) {
  const int64_t row_bytes = width * static_cast<int64_t>(SizeOf(dtype));
  auto* const scales = reinterpret_cast<float*>(block + scale_offset);
  return {.data = block + offset + row * row_bytes,
          .dtype = dtype,
          .width = width,
          .scales = dtype == DType::kI8 ? scales + row : nullptr};
}

KvRowTarget KeysAt(std::byte* block, const KvLayout& layout, int64_t row) {
  return RowsAt(block, layout.dtype, 0, layout.k_scale_offset(), layout.k_dim,
                row);
}

KvRowTarget ValuesAt(std::byte* block, const KvLayout& layout, int64_t row) {
  return RowsAt(block, layout.dtype, layout.v_offset(), layout.v_scale_offset(),
                layout.v_dim, row);
}

bool IsRowsOf(const TensorView& tensor, int64_t heads, int64_t count,
              int64_t width) {
  return tensor.shape == Shape{1, heads, count, width};
}

// The first `count` rows of a head, as they are stored.
void CopyHead(const KvRowTarget& from, int64_t count, const KvRowTarget& to) {
  const int64_t bytes =
      count * from.width * static_cast<int64_t>(SizeOf(from.dtype));
  std::memcpy(to.data, from.data, static_cast<size_t>(bytes));
  if (from.scales != nullptr) std::copy_n(from.scales, count, to.scales);
}

// The first `count` tokens of a block: those behind them may be being written
// by a fork.
void CopyRows(std::byte* from, int64_t count, const KvLayout& layout,
              std::byte* to) {
  for (int64_t head = 0; head < layout.kv_heads; ++head) {
    const int64_t row = head * kKvBlockTokens;
    CopyHead(KeysAt(from, layout, row), count, KeysAt(to, layout, row));
    CopyHead(ValuesAt(from, layout, row), count, ValuesAt(to, layout, row));
  }
}

}  // namespace

KvSequence::KvSequence(const KvLayout& layout, KvBlockPool& pool)
    : layout_(layout), pool_(&pool) {}

absl::Status KvSequence::Reserve(int64_t tokens) {
  if (tokens <= 0) return absl::OkStatus();
  if (tokens > kMaxTokens - length_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tokens of a sequence: got ", tokens, " more than ",
                     length_, ", expected at most 2^40"));
  }
  try {
    return ReserveBlocks(length_ + tokens);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status KvSequence::ReserveBlocks(int64_t tokens) {
  const int64_t needed = KvBlocksFor(tokens);
  const int64_t held = std::ssize(blocks_);
  int64_t missing = std::max<int64_t>(needed - held, 0);
  for (int64_t i = length_ / kKvBlockTokens; i < std::min(held, needed); ++i) {
    if (!IsAlone(blocks_[static_cast<size_t>(i)])) ++missing;
  }
  if (missing == 0) return absl::OkStatus();
  absl::StatusOr<std::vector<KvBlock>> fresh =
      pool_->TakeMany(layout_.block_bytes(), missing);
  if (!fresh.ok()) return fresh.status();
  if (layout_.kv_heads > 0) {
    wide_row_.resize(static_cast<size_t>(
        WideRowFloats(std::max(layout_.k_dim, layout_.v_dim))));
  }
  Grow(blocks_, static_cast<size_t>(needed));
  Grow(pointers_, static_cast<size_t>(needed));
  PlaceBlocks(needed, *std::move(fresh));
  return absl::OkStatus();
}

void KvSequence::PlaceBlocks(int64_t needed, std::vector<KvBlock> fresh) {
  const int64_t first = length_ / kKvBlockTokens;
  const int64_t begun = length_ % kKvBlockTokens;
  // A fork may have gone since they were counted: then one too many was taken.
  auto next = fresh.begin();
  for (int64_t i = first; i < needed; ++i) {
    if (i == std::ssize(blocks_)) {
      pointers_.push_back(next->get());
      blocks_.push_back(*std::move(next++));
      continue;
    }
    KvBlock& block = blocks_[static_cast<size_t>(i)];
    if (IsAlone(block)) continue;
    if (i == first && begun > 0) {
      CopyRows(block.get(), begun, layout_, next->get());
    }
    block = *std::move(next++);
    pointers_[static_cast<size_t>(i)] = block.get();
  }
  // The block that stands in for released ones may have been replaced.
  if (first == released_end_) PointReleased();
}

void KvSequence::Append(const TensorView& k, const TensorView& v,
                        const PrepareKeys& prepare) {
  CheckReserved(k, v);
  const PrepareKeys as_they_are;
  const int64_t count = k.shape[2];
  // Head by head within a block: what is computed of a position then serves
  // all heads.
  int64_t rows = 0;
  for (int64_t i = 0; i < count; i += rows) {
    const int64_t token = length_ + i;
    const int64_t row = token % kKvBlockTokens;
    rows = std::min(kKvBlockTokens - row, count - i);
    std::byte* const block =
        blocks_[static_cast<size_t>(token / kKvBlockTokens)].get();
    for (int64_t head = 0; head < layout_.kv_heads; ++head) {
      const int64_t place = head * kKvBlockTokens + row;
      WriteKvRows(RowsOf(k, head, i), rows, KeysAt(block, layout_, place),
                  prepare, {.kv_head = head, .first = token}, wide_row_);
      WriteKvRows(RowsOf(v, head, i), rows, ValuesAt(block, layout_, place),
                  as_they_are, {}, wide_row_);
    }
  }
  length_ += count;
}

void KvSequence::CheckReserved(const TensorView& k, const TensorView& v) const {
  const int64_t count = k.shape[2];
  const int64_t needed = KvBlocksFor(length_ + count);
  bool fits = IsRowsOf(k, layout_.kv_heads, count, layout_.k_dim) &&
              IsRowsOf(v, layout_.kv_heads, count, layout_.v_dim) &&
              needed <= std::ssize(blocks_);
  for (int64_t i = length_ / kKvBlockTokens; fits && i < needed; ++i) {
    fits = count == 0 || blocks_[static_cast<size_t>(i)].use_count() == 1;
  }
  if (fits) return;
  std::fprintf(stderr,
               "attn: k %s and v %s were appended to a sequence that has not "
               "reserved blocks of its own for them\n",
               k.shape.ToString().c_str(), v.shape.ToString().c_str());
  std::abort();
}

absl::Status KvSequence::Truncate(int64_t length, int64_t window) {
  length = std::min(length, length_);
  const int64_t seen = window > 0 ? std::max<int64_t>(length - window, 0) : 0;
  const int64_t released_from = released_begin_ * kKvBlockTokens;
  const int64_t released_to = released_end_ * kKvBlockTokens;
  if (length < length_ && seen < released_to && released_from < length) {
    return absl::FailedPreconditionError(absl::StrCat(
        "position: got ", length, ", expected one that sees none of tokens ",
        released_from, " to ", released_to - 1, ", which are gone"));
  }
  length_ = length;
  const auto kept = static_cast<size_t>(KvBlocksFor(length));
  blocks_.resize(kept);
  pointers_.resize(kept);
  if (length <= released_from) released_begin_ = released_end_ = 0;
  return absl::OkStatus();
}

void KvSequence::Release(int64_t keep, int64_t end) {
  int64_t first = KvBlocksFor(std::max<int64_t>(keep, 0));
  int64_t last = std::min(end, length_) / kKvBlockTokens - 1;
  if (first >= last) return;
  if (released_begin_ < released_end_) {
    if (first > released_end_ || last < released_begin_) return;
    first = std::min(first, released_begin_);
    last = std::max(last, released_end_);
    if (first == released_begin_ && last == released_end_) return;
  }
  for (int64_t i = first; i < last; ++i) {
    if (i == released_begin_) i = std::max(i, released_end_);
    if (i < last) blocks_[static_cast<size_t>(i)].reset();
  }
  released_begin_ = first;
  released_end_ = last;
  PointReleased();
}

void KvSequence::PointReleased() {
  if (released_begin_ == released_end_) return;
  std::fill(pointers_.begin() + released_begin_,
            pointers_.begin() + released_end_,
            pointers_[static_cast<size_t>(released_end_)]);
}

KvBlocks KvSequence::Describe() const {
  // Blocks that are none are present too.
  static constexpr const std::byte* kNone = nullptr;
  return {.block_tokens = kKvBlockTokens,
          .blocks = pointers_.empty() ? &kNone : pointers_.data(),
          .v_offset = layout_.v_offset(),
          .k_scale_offset = layout_.k_scale_offset(),
          .v_scale_offset = layout_.v_scale_offset()};
}

int64_t KvSequence::bytes() const {
  return (std::ssize(blocks_) - (released_end_ - released_begin_)) *
         layout_.block_bytes();
}

int64_t KvSequence::own_bytes() const {
  return std::count_if(
             blocks_.begin(), blocks_.end(),
             [](const KvBlock& block) { return block.use_count() == 1; }) *
         layout_.block_bytes();
}

}  // namespace attn
