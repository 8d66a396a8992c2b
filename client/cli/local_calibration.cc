#include "client/cli/local_calibration.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "client/library/host_tensor.h"
#include "client/load/payload.h"
#include "engine/engine.h"

namespace attn {
namespace {

struct Candidate {
  const char* shape;
  bool causal = false;
};

// Few keys, few query rows, and many of both.
constexpr Candidate kCandidates[] = {
    {"1,4,4,16,16,32"},      {"1,12,12,32,32,64"}, {"1,8,8,8,64,64"},
    {"1,8,8,16,128,64"},     {"1,8,8,12,512,64"},  {"1,32,8,1,256,128"},
    {"1,32,8,1,4096,128"},   {"1,8,8,8,2048,64"},  {"1,8,8,16,2048,64"},
    {"1,12,12,128,128,64"},  {"1,4,4,512,512,64"}, {"1,4,4,512,512,64", true},
    {"1,1,1,1024,1024,128"},
};

// Kernels take turns: what disturbs the machine for a while disturbs all.
constexpr int kRounds = 4;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

// Of all threads of this process, one of which computes: other processes do not
// count.
absl::Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// One call and the memory it needs.
class LocalCall {
 public:
  static absl::StatusOr<LocalCall> Create(const CallProfile& profile) {
    auto payloads = MakePayloads(profile, 1);
    if (!payloads.ok()) return payloads.status();
    return LocalCall(profile, std::move(payloads->front()));
  }

  absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(
      Engine& engine, const std::string& kernel) {
    return engine.Plan(profile_.Spec(), Args(), {}, profile_.dtype, kernel);
  }

  // The shortest of the runs that fit into the budget, one at least after one
  // that takes memory and fills caches.
  absl::StatusOr<absl::Duration> ShortestRun(
      Engine& engine, const std::shared_ptr<const Plan>& plan,
      absl::Duration budget) {
    absl::Duration shortest = absl::InfiniteDuration();
    absl::Duration spent = -absl::Nanoseconds(1);
    for (bool is_first = true; spent < budget; is_first = false) {
      const absl::Duration begin = ProcessorTime();
      const absl::Status status = Run(engine, plan);
      const absl::Duration time = ProcessorTime() - begin;
      if (!status.ok()) return status;
      if (is_first) continue;
      shortest = std::min(shortest, time);
      spent += time;
    }
    return shortest;
  }

 private:
  LocalCall(const CallProfile& profile, LoadPayload payload)
      : profile_(profile), payload_(std::move(payload)) {
    const AttentionShape& s = profile.shape;
    output_ =
        HostTensor(profile.dtype, {s.batch, s.q_heads, s.q_length, s.v_dim});
  }

  AttentionArgs Args() const {
    AttentionArgs args;
    args.q = payload_.q.view();
    args.k = payload_.k.view();
    args.v = payload_.v.view();
    return args;
  }

  absl::Status Run(Engine& engine, const std::shared_ptr<const Plan>& plan) {
    AttentionOutputs outputs;
    outputs.output = MutableTensorView::Dense(output_.data(), profile_.dtype,
                                              output_.shape());
    const AttentionArgs args = Args();
    return engine.Run(plan, args, outputs).status;
  }

  CallProfile profile_;
  LoadPayload payload_;
  HostTensor output_;
};

absl::StatusOr<CalibrationRow> Measure(Engine& engine,
                                       const CallProfile& profile,
                                       absl::Duration budget) {
  auto call = LocalCall::Create(profile);
  if (!call.ok()) return call.status();
  const auto choice = call->MakePlan(engine, "");
  if (!choice.ok()) return choice.status();
  CalibrationRow row{profile.ToString(), (*choice)->kernel, {}};
  for (int round = 0; round < kRounds; ++round) {
    for (const std::string& kernel : ListKernels()) {
      if (kernel == "reference") continue;
      const auto plan = call->MakePlan(engine, kernel);
      if (!plan.ok()) continue;  // it does not compute such a call
      const auto time = call->ShortestRun(engine, *plan, budget / kRounds);
      if (!time.ok()) return time.status();
      absl::Duration& shortest =
          row.times.try_emplace(kernel, absl::InfiniteDuration()).first->second;
      shortest = std::min(shortest, *time);
    }
  }
  return row;
}

}  // namespace

const std::string& CalibrationRow::Fastest() const {
  return std::min_element(
             times.begin(), times.end(),
             [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

double CalibrationRow::Loss() const {
  return absl::FDivDuration(times.at(chosen), times.at(Fastest()));
}

absl::StatusOr<std::vector<CalibrationRow>> Calibrate(
    absl::Duration budget, const CalibrationWatch& watch) {
  constexpr auto kAll =
      static_cast<int64_t>(std::size(kCandidates) * std::size(kDTypes));
  Engine engine({.workers = 1});
  std::vector<CalibrationRow> rows;
  for (const Candidate& candidate : kCandidates) {
    for (const DType dtype : kDTypes) {
      CallProfile profile;
      profile.shape = ParseCallShape(candidate.shape).value();
      profile.dtype = dtype;
      profile.causal = candidate.causal;
      if (watch) {
        watch(static_cast<int64_t>(rows.size()), kAll, profile.ToString());
      }
      auto row = Measure(engine, profile, budget);
      if (!row.ok()) return row.status();
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

std::string LocalCpuClass() { return CpuClassName(); }

}  // namespace attn
