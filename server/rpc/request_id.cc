#include "server/rpc/request_id.h"

#include <atomic>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

uint32_t ProcessSalt() {
  static const uint32_t salt = std::random_device{}();
  return salt;
}

}  // namespace

std::string MakeRequestId() {
  static std::atomic<uint64_t> next{1};
  return absl::StrCat(absl::Hex(ProcessSalt(), absl::kZeroPad8), "-",
                      next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace attn
