#include "client/load/answer_agreement.h"

#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

size_t DigestOf(const StepResult& result) {
  // The golden ratio's bits spread what two numbers have in common.
  constexpr size_t kGolden = 0x9e3779b97f4a7c15;
  size_t digest = result.tensors.size();
  for (const ResponseTensor& tensor : result.tensors) {
    const std::string_view bytes(
        reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    digest = digest * kGolden + std::hash<std::string_view>()(bytes);
  }
  return digest;
}

}  // namespace

void AnswerAgreement::Offer(int64_t position, const StepResult& result) {
  const size_t digest = DigestOf(result);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [first, is_first] = seen_.emplace(position, digest);
  if (is_first) return;
  ++counts_.verified;
  if (first->second == digest) return;
  if (counts_.mismatches++ == 0) {
    counts_.first_mismatch =
        absl::StrCat("the step after ", position,
                     " tokens has other bits than in another session");
  }
}

Verification AnswerAgreement::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(counts_, Verification{});
}

}  // namespace attn
