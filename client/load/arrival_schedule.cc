#include "client/load/arrival_schedule.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr double kNanosPerSecond = 1e9;

// Thread-compatible.
class ConstantArrivals : public ArrivalSchedule {
 public:
  explicit ConstantArrivals(double rate) : rate_(rate) {}

  int64_t Next() override {
    const double at = static_cast<double>(sent_++) / rate_;
    return std::llround(at * kNanosPerSecond);
  }

 private:
  const double rate_;
  int64_t sent_ = 0;
};

// Thread-compatible.
class PoissonArrivals : public ArrivalSchedule {
 public:
  PoissonArrivals(double rate, uint64_t seed) : rate_(rate), random_(seed) {}

  int64_t Next() override {
    // 53 random bits in (0, 1]: the logarithm is finite. Not
    // std::exponential_distribution, which differs between libraries.
    const double uniform =
        (static_cast<double>(random_() >> 11) + 1) * 0x1.0p-53;
    at_ -= std::log(uniform) / rate_;
    return std::llround(at_ * kNanosPerSecond);
  }

 private:
  const double rate_;
  std::mt19937_64 random_;
  double at_ = 0;
};

}  // namespace

std::string Name(Arrivals arrivals) {
  return arrivals == Arrivals::kPoisson ? "poisson" : "constant";
}

absl::StatusOr<Arrivals> ParseArrivals(const std::string& name) {
  for (const Arrivals arrivals : {Arrivals::kConstant, Arrivals::kPoisson}) {
    if (name == Name(arrivals)) return arrivals;
  }
  return FieldError("arrivals", absl::StrCat("\"", name, "\""),
                    "poisson or constant");
}

std::unique_ptr<ArrivalSchedule> MakeArrivals(Arrivals arrivals, double rate,
                                              uint64_t seed) {
  if (arrivals == Arrivals::kPoisson) {
    return std::make_unique<PoissonArrivals>(rate, seed);
  }
  return std::make_unique<ConstantArrivals>(rate);
}

}  // namespace attn
