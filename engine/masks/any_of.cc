// The union of masks.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/masks/members.h"

namespace attn {
namespace {

constexpr size_t kMaxMasks = 16;
constexpr int kMaxDepth = 4;

class AnyOf final : public Mask {
 public:
  explicit AnyOf(std::vector<std::unique_ptr<Mask>> masks)
      : masks_(std::move(masks)) {}

  KeyRange Visible(const CallView& call,
                   const TileBounds& rows) const override {
    KeyRange hull;
    for (const auto& mask : masks_) {
      const KeyRange keys = mask->Visible(call, rows);
      if (keys.empty()) continue;
      hull = hull.empty() ? keys
                          : KeyRange{std::min(hull.begin, keys.begin),
                                     std::max(hull.end, keys.end)};
    }
    return hull;
  }
  bool Covers(const CallView& call, const TileBounds& tile) const override {
    return std::any_of(masks_.begin(), masks_.end(), [&](const auto& mask) {
      return mask->Covers(call, tile);
    });
  }
  void Exclude(const CallView& call, const Tile<float>& tile) const override {
    ExcludeFrom(call, tile);
  }
  void Exclude(const CallView& call, const Tile<double>& tile) const override {
    ExcludeFrom(call, tile);
  }

 private:
  // A piece of a row at a time: each mask marks what it excludes on zeros of
  // its own, and what all of them mark is excluded.
  template <typename T>
  void ExcludeFrom(const CallView& call, const Tile<T>& tile) const {
    constexpr int64_t kPiece = 256;
    constexpr T kExcluded = -std::numeric_limits<T>::infinity();
    T marks[kPiece];
    bool excluded[kPiece];
    const TileBounds& b = tile.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t begin = 0; begin < b.keys; begin += kPiece) {
        const int64_t count = std::min(kPiece, b.keys - begin);
        std::fill_n(excluded, count, true);
        const TileBounds piece = {
            b.batch, b.head, b.row_begin + r, 1, b.key_begin + begin, count};
        for (const auto& mask : masks_) {
          std::fill_n(marks, count, T{0});
          mask->Exclude(call, Tile<T>{piece, marks, count});
          for (int64_t j = 0; j < count; ++j) {
            excluded[j] = excluded[j] && marks[j] == kExcluded;
          }
        }
        T* row = tile.Row(r) + begin;
        for (int64_t j = 0; j < count; ++j) {
          if (excluded[j]) row[j] = kExcluded;
        }
      }
    }
  }

  std::vector<std::unique_ptr<Mask>> masks_;
};

int Depth(const MaskSpec& spec) {
  const auto* any_of = std::get_if<AnyOfMask>(&spec);
  if (any_of == nullptr) return 0;
  int deepest = 0;
  for (const MaskSpec& mask : any_of->masks) {
    deepest = std::max(deepest, Depth(mask));
  }
  return deepest + 1;
}

absl::Status Validate(const MaskSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& any_of = std::get<AnyOfMask>(spec);
  const std::string field = absl::StrCat(list_field, ".any_of");
  if (any_of.masks.empty() || any_of.masks.size() > kMaxMasks) {
    return FieldError(absl::StrCat(field, ".masks"),
                      absl::StrCat(any_of.masks.size(), " masks"),
                      absl::StrCat("1 to ", kMaxMasks));
  }
  if (Depth(spec) > kMaxDepth) {
    return FieldError(field, absl::StrCat(Depth(spec), " levels"),
                      absl::StrCat("at most ", kMaxDepth));
  }
  for (size_t i = 0; i < any_of.masks.size(); ++i) {
    const MaskSpec& mask = any_of.masks[i];
    absl::Status status = MaskTable()[mask.index()].validate(
        mask, problem, absl::StrCat(field, ".masks[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Describe(const MaskSpec& spec) {
  std::string text = "any_of(";
  for (const MaskSpec& mask : std::get<AnyOfMask>(spec).masks) {
    absl::StrAppend(&text, text.back() == '(' ? "" : ", ",
                    MaskTable()[mask.index()].describe(mask));
  }
  return text + ")";
}

std::unique_ptr<Mask> Make(const MaskSpec& spec, const Problem& problem) {
  std::vector<std::unique_ptr<Mask>> masks;
  for (const MaskSpec& mask : std::get<AnyOfMask>(spec).masks) {
    masks.push_back(MaskTable()[mask.index()].make(mask, problem));
  }
  return std::make_unique<AnyOf>(std::move(masks));
}

}  // namespace

MaskEntry AnyOfMaskEntry() {
  return {"any_of", "allowed where one of several masks allows it",
          13,       Validate,
          Describe, Make};
}

}  // namespace attn
