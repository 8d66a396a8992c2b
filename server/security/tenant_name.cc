#include "server/security/tenant_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace attn {
namespace {

constexpr absl::string_view kMarks = "._~:/@+-";

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kMarks.find(c) != absl::string_view::npos;
}

}  // namespace

bool IsTenantName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxTenantNameSize &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsPlain(c) || c == '%'; });
}

std::string TenantOfCertificateName(absl::string_view name) {
  std::string tenant;
  for (const char c : name) {
    if (IsPlain(c)) {
      tenant += c;
    } else {
      absl::StrAppendFormat(&tenant, "%%%02X", static_cast<unsigned char>(c));
    }
    if (tenant.size() > kMaxTenantNameSize) return "";
  }
  return tenant;
}

}  // namespace attn
