// Texts from anybody, and files that an administrator or a disk may have
// spoilt: the parsers must take them or refuse them.
//
// Built and run as tests/proto/fuzz/attend_fuzz.cc is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "server/rpc/caller.h"
#include "server/security/token_file.h"
#include "server/sessions/session_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// Whatever is taken is 32 hexadecimal digits of the text.
void TryTraceParent(absl::string_view text) {
  constexpr size_t kDigits = 32;
  const std::string id = TraceIdOf(text);
  if (id.empty()) return;
  Require(id.size() == kDigits);
  Require(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  Require(text.find(id) != absl::string_view::npos);
}

// Tenants there are, no more of them than lines; an error is one line.
void TryTokenFile(absl::string_view text) {
  const auto tokens = ParseTokenFile(text, TenantQuota());
  if (!tokens.ok()) {
    Require(tokens.status().message().find('\n') == absl::string_view::npos);
    return;
  }
  size_t lines = 1;
  for (const char letter : text) lines += letter == '\n' ? 1 : 0;
  Require(!tokens->empty() && tokens->tenants() <= lines &&
          tokens->tokens() <= lines);
}

// What is taken is what would be written.
void TrySessionRecord(absl::string_view text) {
  const auto record = DecodeSessionRecord(text);
  Require(!record.ok() || EncodeSessionRecord(*record) == text);
}

}  // namespace
}  // namespace attn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  attn::TryTraceParent(text);
  attn::TryTokenFile(text);
  attn::TrySessionRecord(text);
  return 0;
}
