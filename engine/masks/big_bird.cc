// Window, global and random blocks (Zaheer et al. 2020, section 2).
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/block_count.h"
#include "engine/masks/members.h"
#include "engine/masks/predicate_mask.h"
#include "engine/tile/philox.h"

namespace attn {
namespace {

class BigBird final : public PredicateMask<BigBird> {
 public:
  BigBird(const BigBirdMask& spec, const AttentionShape& shape)
      : PredicateMask(Alignment::kTopLeft),
        spec_(spec),
        rows_(BlockCount(shape.q_length, spec.block)),
        blocks_(BlockCount(shape.kv_length, spec.block)) {
    random_.reserve(static_cast<size_t>(shape.q_heads * rows_));
    for (int64_t head = 0; head < shape.q_heads; ++head) {
      for (int64_t row = 0; row < rows_; ++row) {
        random_.push_back(Draw(head, row));
      }
    }
  }

  bool Allows(const CallView& /*call*/, const QueryAt& at, int64_t key) const {
    const int64_t row = at.row / spec_.block;
    const int64_t block = key / spec_.block;
    if (IsNear(row, block)) return true;
    const auto& drawn = random_[static_cast<size_t>(at.head * rows_ + row)];
    return std::binary_search(drawn.begin(), drawn.end(), block);
  }

 private:
  // In the window or global.
  bool IsNear(int64_t row, int64_t block) const {
    return row < spec_.global_blocks || block < spec_.global_blocks ||
           std::abs(row - block) <= (spec_.window_blocks - 1) / 2;
  }
  // The random blocks of a block row, sorted: a partial shuffle of the blocks
  // that are not near.
  std::vector<int64_t> Draw(int64_t head, int64_t row) const {
    std::vector<int64_t> far;
    for (int64_t block = 0; block < blocks_; ++block) {
      if (!IsNear(row, block)) far.push_back(block);
    }
    const auto count = static_cast<size_t>(
        std::min(spec_.random_blocks, static_cast<int64_t>(far.size())));
    const std::array<uint32_t, 2> key = {
        static_cast<uint32_t>(spec_.seed),
        static_cast<uint32_t>(spec_.seed >> 32)};
    for (size_t i = 0; i < count; ++i) {
      const uint32_t word =
          Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(row),
                      static_cast<uint32_t>(head), 0},
                     key)[0];
      // The high half of the product maps the word to [0, n).
      const uint64_t n = far.size() - i;
      std::swap(far[i], far[i + ((word * n) >> 32)]);
    }
    far.resize(count);
    std::sort(far.begin(), far.end());
    return far;
  }

  BigBirdMask spec_;
  int64_t rows_;
  int64_t blocks_;
  std::vector<std::vector<int64_t>> random_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& mask = std::get<BigBirdMask>(spec);
  const std::string field = absl::StrCat(list_field, ".big_bird");
  if (mask.block < 1) {
    return FieldError(absl::StrCat(field, ".block"), absl::StrCat(mask.block),
                      "a size >= 1");
  }
  if (mask.window_blocks < 1 || mask.window_blocks % 2 == 0) {
    return FieldError(absl::StrCat(field, ".window_blocks"),
                      absl::StrCat(mask.window_blocks), "an odd number");
  }
  if (mask.global_blocks < 0) {
    return FieldError(absl::StrCat(field, ".global_blocks"),
                      absl::StrCat(mask.global_blocks), "a number >= 0");
  }
  if (mask.random_blocks < 0) {
    return FieldError(absl::StrCat(field, ".random_blocks"),
                      absl::StrCat(mask.random_blocks), "a number >= 0");
  }
  // The plan goes through every block of every head and keeps a list for each
  // block row, also where there are no keys.
  constexpr double kMaxDraws = 1 << 24;
  const AttentionShape& shape = problem.shape;
  double draws = 1;
  for (const int64_t count :
       {shape.q_heads, BlockCount(shape.q_length, mask.block),
        BlockCount(shape.kv_length, mask.block)}) {
    draws *= static_cast<double>(std::max<int64_t>(count, 1));
  }
  if (draws > kMaxDraws) {
    return FieldError(absl::StrCat(field, ".block"), absl::StrCat(mask.block),
                      "a size that gives at most 2^24 blocks in all heads");
  }
  return absl::OkStatus();
}

std::string Describe(const MaskSpec& spec) {
  const auto& mask = std::get<BigBirdMask>(spec);
  return absl::StrCat("big_bird(", mask.block, ", ", mask.window_blocks, ", ",
                      mask.global_blocks, ", ", mask.random_blocks, ")");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& problem) {
  return std::make_unique<BigBird>(std::get<BigBirdMask>(spec), problem.shape);
}

}  // namespace

MaskEntry BigBirdMaskEntry() {
  return {"big_bird", "window, global and seeded random blocks",
          10,         Validate,
          Describe,   Make};
}

}  // namespace attn
