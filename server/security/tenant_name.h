// Names of tenants: short, and of letters that cannot break a line of the log.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace attn {

inline constexpr size_t kMaxTenantNameSize = 128;

// 1 to 128 letters, digits and . _ ~ : / @ % + -
bool IsTenantName(absl::string_view name);

// The tenant whom a certificate's URI, DNS name or common name stands for: the
// name itself, other bytes and '%' written as %XX (RFC 3986, section 2.1), so
// that two names are never one tenant. Empty if it is longer than a tenant's
// name may be.
std::string TenantOfCertificateName(absl::string_view name);

}  // namespace attn
