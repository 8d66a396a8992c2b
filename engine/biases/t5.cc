// A learned bias for each bucket of distances (Raffel et al. 2020, section
// 2.1). Near distances have a bucket each, far ones share logarithmic buckets.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

// a^n, saturated well above any comparison that is made with it.
long double Power(long double a, int64_t n) {
  long double product = 1;
  for (int64_t i = 0; i < n; ++i) product *= a;
  return product;
}

// First distances of the buckets of one direction: with `count` buckets, those
// below count / 2 are exact; bucket e + i holds the distances d with
// i <= (count - e) ln(d / e) / ln(max / e), e = count / 2. Compared as powers,
// which are exact where the logarithms would round.
std::vector<int64_t> BucketStarts(int64_t count, int64_t max_distance) {
  const int64_t exact = count / 2;
  std::vector<int64_t> starts;
  for (int64_t bucket = 0; bucket < exact; ++bucket) starts.push_back(bucket);
  const int64_t far = count - exact;
  int64_t distance = exact;
  for (int64_t i = 0; i < far; ++i) {
    const auto reaches = [&](int64_t d) {
      // (d / exact)^far >= (max / exact)^i
      return Power(static_cast<long double>(d), far) *
                 Power(static_cast<long double>(exact), i) >=
             Power(static_cast<long double>(max_distance), i) *
                 Power(static_cast<long double>(exact), far);
    };
    int64_t end = max_distance;  // reaches every bucket
    while (distance < end) {
      const int64_t middle = distance + (end - distance) / 2;
      if (reaches(middle)) {
        end = middle;
      } else {
        distance = middle + 1;
      }
    }
    starts.push_back(distance);
  }
  return starts;
}

class T5 final : public Bias {
 public:
  T5(const T5Bias& spec, int64_t buckets)
      : table_(spec.table), bidirectional_(spec.bidirectional) {
    const int64_t per_direction = bidirectional_ ? buckets / 2 : buckets;
    starts_ = BucketStarts(per_direction, spec.max_distance);
  }

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }
  void Backward(const CallView& call, const Tile<double>& gradient,
                const GradientSink& sink) const override {
    double* of_table = sink.Of(table_);
    if (of_table == nullptr) return;
    const TileBounds& b = gradient.bounds;
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t j = 0; j < b.keys; ++j) {
        of_table[Index(call, b, b.row_begin + r, b.key_begin + j)] +=
            gradient.Row(r)[j];
      }
    }
  }

 private:
  int64_t Bucket(int64_t offset) const {
    const auto count = static_cast<int64_t>(starts_.size());
    int64_t base = 0;
    int64_t distance = 0;
    if (bidirectional_) {
      base = offset > 0 ? count : 0;
      distance = offset < 0 ? -offset : offset;
    } else {
      distance = std::max<int64_t>(-offset, 0);
    }
    // The last bucket that starts at or before the distance.
    const auto after =
        std::upper_bound(starts_.begin(), starts_.end(), distance);
    return base + (after - starts_.begin()) - 1;
  }
  // Element of the table [buckets, Hq].
  int64_t Index(const CallView& call, const TileBounds& bounds, int64_t row,
                int64_t key) const {
    const int64_t offset = key - row - call.position_offset(bounds.batch);
    return Bucket(offset) * call.shape.q_heads + bounds.head;
  }
  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    const ParameterView table(call.args.inputs[table_]);
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      for (int64_t j = 0; j < count; ++j) {
        table.Load(Index(call, tile.bounds, row, key + j), 1, out + j);
      }
    });
  }

  uint32_t table_;
  bool bidirectional_;
  std::vector<int64_t> starts_;
};

constexpr int64_t kMaxBuckets = 512;

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& t5 = std::get<T5Bias>(spec);
  const std::string field = absl::StrCat(list_field, ".t5");
  int64_t buckets = 2;
  if (t5.table < problem.inputs.size() &&
      problem.inputs[t5.table].shape.rank() == 2) {
    buckets = problem.inputs[t5.table].shape[0];
  }
  const int64_t directions = t5.bidirectional ? 2 : 1;
  if (buckets < 2 * directions || buckets > kMaxBuckets ||
      buckets % directions != 0) {
    return FieldError(absl::StrCat(field, ".table.input"),
                      absl::StrCat(buckets, " buckets"),
                      absl::StrCat("2 to ", kMaxBuckets,
                                   ", even and at least 4 if bidirectional"));
  }
  const int64_t exact = buckets / directions / 2;
  if (t5.max_distance <= exact || t5.max_distance > (int64_t{1} << 24)) {
    return FieldError(absl::StrCat(field, ".max_distance"),
                      absl::StrCat(t5.max_distance),
                      absl::StrCat("above ", exact, ", at most 2^24"));
  }
  return CheckParameter(problem, t5.table,
                        {Shape{buckets, problem.shape.q_heads}},
                        absl::StrCat(field, ".table.input"));
}

std::string Describe(const BiasSpec& spec) {
  return std::get<T5Bias>(spec).bidirectional ? "t5(bidirectional)" : "t5";
}

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& problem) {
  const auto& t5 = std::get<T5Bias>(spec);
  return std::make_unique<T5>(t5, problem.inputs[t5.table].shape[0]);
}

}  // namespace

BiasEntry T5BiasEntry() {
  return {"t5",     "a learned value for each head and bucket of distances",
          3,        Validate,
          Describe, Make};
}

}  // namespace attn
