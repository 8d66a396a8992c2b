#include "server/inference/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr size_t kLongestName = 64;

bool ContinuesCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string FieldPart(absl::string_view name) {
  size_t end = name.size();
  if (end > kLongestName) {
    end = kLongestName;
    // Not inside of a UTF-8 character.
    while (end > 0 && ContinuesCharacter(name[end])) --end;
  }
  return absl::StrCat(absl::Utf8SafeCEscape(name.substr(0, end)),
                      end < name.size() ? "..." : "");
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", FieldPart(name), "\"");
}

}  // namespace attn
