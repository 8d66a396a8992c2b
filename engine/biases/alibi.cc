// Attention with linear biases (Press, Smith and Lewis 2022, section 3).
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// For 2^n heads the slopes are a geometric series that starts at, and has the
// ratio, 2^(-8 / heads).
double PowerOfTwoSlope(int64_t heads, int64_t head) {
  return std::exp2(-8.0 * static_cast<double>(head + 1) /
                   static_cast<double>(heads));
}

// Other head counts take, as the authors' code does, the slopes of the power of
// two below and then every other slope of the power of two above.
std::vector<double> PublishedSlopes(int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  slopes.reserve(static_cast<size_t>(heads));
  for (int64_t head = 0; head < heads; ++head) {
    slopes.push_back(head < power
                         ? PowerOfTwoSlope(power, head)
                         : PowerOfTwoSlope(2 * power, 2 * (head - power)));
  }
  return slopes;
}

class Alibi final : public Bias {
 public:
  explicit Alibi(std::vector<double> slopes) : slopes_(std::move(slopes)) {}

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }

 private:
  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    // Within T: an explicit slope may be larger than any float.
    const double largest = std::numeric_limits<T>::max();
    const auto factor = static_cast<T>(std::clamp(
        -slopes_[static_cast<size_t>(tile.bounds.head)], -largest, largest));
    const int64_t diagonal = call.position_offset(tile.bounds.batch);
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      DistanceRow(out, count, row + diagonal - key, factor);
    });
  }

  std::vector<double> slopes_;
};

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view field) {
  const std::vector<double>& slopes = std::get<AlibiBias>(spec).slopes;
  const std::string path = absl::StrCat(field, ".alibi.slopes");
  if (!slopes.empty() &&
      static_cast<int64_t>(slopes.size()) != problem.shape.q_heads) {
    return FieldError(
        path, absl::StrCat(slopes.size(), " slopes"),
        absl::StrCat("none (the published ones) or ", problem.shape.q_heads,
                     ", one for each query head"));
  }
  for (size_t i = 0; i < slopes.size(); ++i) {
    if (std::isfinite(slopes[i])) continue;
    return FieldError(absl::StrCat(path, "[", i, "]"), absl::StrCat(slopes[i]),
                      "a finite number");
  }
  return absl::OkStatus();
}

std::string Describe(const BiasSpec& spec) {
  return std::get<AlibiBias>(spec).slopes.empty() ? "alibi" : "alibi(slopes)";
}

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& problem) {
  std::vector<double> slopes = std::get<AlibiBias>(spec).slopes;
  if (slopes.empty()) slopes = PublishedSlopes(problem.shape.q_heads);
  return std::make_unique<Alibi>(std::move(slopes));
}

}  // namespace

BiasEntry AlibiBiasEntry() {
  return {
      "alibi",  "-slope[h] * |i + Sk - Sq - j|, published slopes by default",
      1,        Validate,
      Describe, Make};
}

}  // namespace attn
