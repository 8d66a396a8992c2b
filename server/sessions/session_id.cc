#include "server/sessions/session_id.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace attn {

std::string MakeSessionId() {
  // Not std::random_device: making one takes 25 times as long.
  std::array<uint64_t, 2> bits = {};
  if (getentropy(bits.data(), sizeof(bits)) != 0) {
    std::perror("attn: no random numbers for the id of a session");
    std::abort();
  }
  return absl::StrCat(absl::Hex(bits[0], absl::kZeroPad16),
                      absl::Hex(bits[1], absl::kZeroPad16));
}

}  // namespace attn
