#include "tests/cluster/client/call_load.h"

#include <thread>

#include "absl/time/clock.h"

namespace attn::cluster {
namespace {

constexpr uint64_t kProblems = 8;
constexpr double kNanosecondsInMillisecond = 1e6;

}  // namespace

CallLoad::CallLoad(const CallLoadOptions& options) : options_(options) {
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    problems_.push_back(std::make_unique<Problem>(seed));
  }
}

absl::StatusOr<nlohmann::json> CallLoad::Run() {
  const auto client = AttentionClient::Connect(options_.client);
  if (!client.ok()) return client.status();
  const absl::Time start = absl::Now();
  std::vector<std::thread> callers;
  for (int i = 0; i < options_.callers; ++i) {
    callers.emplace_back([this, &client] { Call(*client); });
  }
  for (std::thread& caller : callers) caller.join();
  return Told(absl::Now() - start);
}

void CallLoad::Call(const AttentionClient& client) {
  while (true) {
    const int64_t number = begun_++;
    if (number >= options_.calls && enough_) return;
    const Problem& problem =
        *problems_[static_cast<size_t>(number) % problems_.size()];
    const absl::Time start = absl::Now();
    const auto answer = client.Attend(problem.message());
    const absl::Duration took = absl::Now() - start;
    Count(answer.status(), answer.ok() && problem.IsRight(*answer), took);
    absl::SleepFor(options_.pause);
  }
}

void CallLoad::Count(const absl::Status& status, bool right,
                     absl::Duration took) {
  const std::lock_guard lock(mutex_);
  latency_.Record(absl::ToInt64Nanoseconds(took));
  if (!status.ok()) {
    const std::string code = absl::StatusCodeToString(status.code());
    ++failed_[code];
    messages_.emplace(code, std::string(status.message()));
  } else {
    ++(right ? ok_ : wrong_);
  }
}

nlohmann::json CallLoad::Told(absl::Duration took) const {
  const auto milliseconds = [this](double percentile) {
    return static_cast<double>(latency_.ValueAtPercentile(percentile)) /
           kNanosecondsInMillisecond;
  };
  return {{"calls", latency_.count()},
          {"ok", ok_},
          {"wrong", wrong_},
          {"failed", failed_},
          {"messages", messages_},
          {"seconds", absl::ToDoubleSeconds(took)},
          {"p50_ms", milliseconds(50)},
          {"p99_ms", milliseconds(99)},
          {"longest_ms", milliseconds(100)}};
}

}  // namespace attn::cluster
