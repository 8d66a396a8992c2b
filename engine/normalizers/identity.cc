// The logits themselves.
#include <algorithm>
#include <limits>

#include "engine/normalizers/elementwise_normalizer.h"
#include "engine/normalizers/members.h"

namespace attn {
namespace {

class Identity final : public ElementwiseNormalizer<Identity> {
 public:
  Identity() : ElementwiseNormalizer(Divisor::kOne) {}

  double Value(double x) const { return x; }
  void MapRow(float* row, int64_t count, float /*divisor*/) const {
    std::replace(row, row + count, -std::numeric_limits<float>::infinity(),
                 0.0F);
  }
  double Slope(double /*x*/) const { return 1; }
};

absl::Status Validate(const NormalizerSpec& /*spec*/,
                      const Problem& /*problem*/, absl::string_view /*field*/) {
  return absl::OkStatus();
}

std::string Describe(const NormalizerSpec& /*spec*/) { return "identity"; }

std::unique_ptr<Normalizer> Make(const NormalizerSpec& /*spec*/,
                                 const Problem& /*problem*/) {
  return std::make_unique<Identity>();
}

}  // namespace

NormalizerEntry IdentityNormalizerEntry() {
  return {"identity", "the logits themselves", 9, Validate, Describe, Make};
}

}  // namespace attn
