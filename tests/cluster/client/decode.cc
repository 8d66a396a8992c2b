#include "tests/cluster/client/decode.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/cluster/client/problem.h"

namespace attn::cluster {
namespace {

constexpr int64_t kDecodeHeads = 2;
constexpr int64_t kDecodeDim = 16;
// More than the steps of any test.
constexpr uint64_t kSeedsOfSession = uint64_t{1} << 20;
// Of FNV-1a, 64 bits.
constexpr uint64_t kFnvPrime = 1099511628211U;

}  // namespace

absl::StatusOr<Decode> Decode::Open(const RemoteSessionOptions& options,
                                    uint64_t seed) {
  NewSession asked{.q_heads = kDecodeHeads, .q_dim = kDecodeDim};
  asked.spec.masks = {CausalMask{Alignment::kBottomRight}};
  auto session = RemoteSession::Open(asked, options);
  if (!session.ok()) return session.status();
  return Decode(*std::move(session), seed);
}

void Decode::Step(int64_t steps, absl::Duration pause) {
  const int64_t end = made_ + steps;
  while (made_ < end && failures_.size() < kMostFailures) {
    absl::SleepFor(pause);
    const absl::Time start = absl::Now();
    const absl::Status status = StepOnce();
    const absl::Duration took = absl::Now() - start;
    longest_ = std::max(longest_, took);
    if (status.ok()) continue;
    failures_.push_back({{"code", absl::StatusCodeToString(status.code())},
                         {"message", std::string(status.message())},
                         {"ms", absl::ToDoubleMilliseconds(took)}});
  }
  if (made_ > 0 && !IsClose(output_, LastToken(q_, keys_, values_))) ++wrong_;
}

absl::Status Decode::StepOnce() {
  const uint64_t seed =
      seed_ * kSeedsOfSession + 3 * static_cast<uint64_t>(made_);
  const Shape shape{1, kDecodeHeads, 1, kDecodeDim};
  HostTensor q = RandomTensor(shape, seed);
  const HostTensor k = RandomTensor(shape, seed + 1);
  const HostTensor v = RandomTensor(shape, seed + 2);
  auto outputs = session_.Step(
      {{.layer = 0, .q = q.view(), .k = k.view(), .v = v.view()}});
  if (!outputs.ok()) return outputs.status();
  ++made_;
  q_ = std::move(q);
  output_ = std::move(outputs->front());
  for (size_t i = 0; i < output_.byte_count(); ++i) {
    digest_ = (digest_ ^ static_cast<uint64_t>(output_.data()[i])) * kFnvPrime;
  }
  const auto new_keys = k.values<float>();
  const auto new_values = v.values<float>();
  keys_.insert(keys_.end(), new_keys.begin(), new_keys.end());
  values_.insert(values_.end(), new_values.begin(), new_values.end());
  return absl::OkStatus();
}

nlohmann::json Decode::Told() const {
  return {{"address", session_.address()},
          {"id", session_.id()},
          {"moves", session_.moves()},
          {"tokens", session_.length()},
          {"wrong", wrong_},
          {"digest", absl::StrFormat("%016x", digest_)},
          {"longest_ms", absl::ToDoubleMilliseconds(longest_)},
          {"failures", failures_}};
}

}  // namespace attn::cluster
