// A tensor that says for each key whether it may be attended.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/masks/members.h"
#include "engine/tile/broadcast_view.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr DType kDTypes[] = {DType::kBool};

class Dense final : public Mask {
 public:
  explicit Dense(uint32_t input) : input_(input) {}

  // The hull of the allowed keys if all rows share them (a padding mask);
  // otherwise everything, as the search would read the whole mask.
  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    const KeyRange all = {0, call.shape.kv_length};
    if (call.args.inputs[input_].data == nullptr) return all;
    const BroadcastView mask(call.args.inputs[input_]);
    if (mask.row_stride() != 0 || mask.key_stride() != 1) return all;
    const std::byte* keys = mask.At(rows.batch, rows.head, 0, 0);
    const auto allowed = [](std::byte b) { return b != std::byte{0}; };
    const std::byte* first = std::find_if(keys, keys + all.end, allowed);
    if (first == keys + all.end) return {};
    const std::byte* end = keys + all.end;
    while (!allowed(end[-1])) --end;
    return {first - keys, end - keys};
  }

  // Knowing would cost as much as excluding.
  bool Covers(const CallView& /*call*/,
              const TileBounds& /*tile*/) const override {
    return false;
  }

  void Exclude(const CallView& call, const Tile<float>& tile) const override {
    ExcludeFrom(call, tile);
  }
  void Exclude(const CallView& call, const Tile<double>& tile) const override {
    ExcludeFrom(call, tile);
  }

 private:
  template <typename T>
  void ExcludeFrom(const CallView& call, const Tile<T>& tile) const {
    const BroadcastView mask(call.args.inputs[input_]);
    const TileBounds& b = tile.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      const auto* allowed = reinterpret_cast<const uint8_t*>(
          mask.At(b.batch, b.head, b.row_begin + r, b.key_begin));
      T* row = tile.Row(r);
      if (mask.key_stride() == 1) {
        ExcludeRow(row, allowed, b.keys);
        continue;
      }
      for (int64_t j = 0; j < b.keys; ++j) {
        if (allowed[j * mask.key_stride()] != 0) continue;
        row[j] = -std::numeric_limits<T>::infinity();
      }
    }
  }

  uint32_t input_;
};

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view field) {
  return CheckBroadcast(problem, std::get<DenseMask>(spec).input,
                        {kDTypes, "BOOL"},
                        absl::StrCat(field, ".dense.tensor.input"));
}

std::string Describe(const MaskSpec& spec) {
  return absl::StrCat("dense(inputs[", std::get<DenseMask>(spec).input, "])");
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& /*problem*/) {
  return std::make_unique<Dense>(std::get<DenseMask>(spec).input);
}

}  // namespace

MaskEntry DenseMaskEntry() {
  return {"dense",
          "a BOOL tensor that broadcasts to [B, Hq, Sq, Sk]; true = attend",
          2,
          Validate,
          Describe,
          Make};
}

}  // namespace attn
