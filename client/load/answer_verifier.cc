#include "client/load/answer_verifier.h"

#include <utility>

#include "attention/v1/attention.pb.h"
#include "client/load/reference_output.h"

namespace attn {
namespace {

// Bounds the memory of answers that wait.
constexpr size_t kMostWaiting = 16;

}  // namespace

void Verification::Merge(const Verification& other) {
  if (mismatches == 0) first_mismatch = other.first_mismatch;
  verified += other.verified;
  mismatches += other.mismatches;
  skipped += other.skipped;
}

AnswerVerifier::AnswerVerifier(std::vector<HostTensor> expected)
    : expected_(std::move(expected)), thread_([this] { Work(); }) {}

AnswerVerifier::~AnswerVerifier() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void AnswerVerifier::Offer(size_t payload, const grpc::ByteBuffer& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (samples_.size() >= kMostWaiting) {
    ++counts_.skipped;
    return;
  }
  samples_.push_back({.payload = payload, .response = response});
  changed_.notify_all();
}

Verification AnswerVerifier::Finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return samples_.empty() && !busy_; });
  return std::exchange(counts_, {});
}

void AnswerVerifier::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !samples_.empty(); });
    if (samples_.empty()) return;
    const Sample sample = std::move(samples_.front());
    samples_.pop_front();
    busy_ = true;
    lock.unlock();
    const absl::Status status = Check(sample);
    lock.lock();
    busy_ = false;
    ++counts_.verified;
    if (!status.ok() && counts_.mismatches++ == 0) {
      counts_.first_mismatch = std::string(status.message());
    }
    changed_.notify_all();
  }
}

absl::Status AnswerVerifier::Check(const Sample& sample) const {
  const absl::StatusOr<AttendResult> result = DecodeResponse(sample.response);
  if (!result.ok()) return result.status();
  const ResponseTensor* output =
      result->Find(v1::AttendResponse::kOutputFieldNumber);
  if (output == nullptr) return absl::DataLossError("no output in the answer");
  return CompareOutput(*output, expected_.at(sample.payload));
}

}  // namespace attn
