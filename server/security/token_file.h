// The text of --auth-token-file.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/batching/tenant_quota.h"
#include "server/security/bearer_tokens.h"

namespace attn {

inline constexpr size_t kMaxTokenSize = 4096;
inline constexpr size_t kMaxTokens = 10'000;

// One tenant on a line, its words separated by spaces or tabs:
//
//   tenant token [max-requests=N] [max-inflight-bytes=N]   # comment
//
// A tenant may have several lines, each with a token of its own: old and new
// ones are valid side by side. "-" stands for no token: the tenant is known by
// its client certificate. A tenant's quota stands on one of its lines; without
// one it has `defaults`; N = 0 is no quota. Tokens are visible ASCII.
//
// INVALID_ARGUMENT names the line by its number and quotes nothing of it. A
// file without a tenant is refused too.
absl::StatusOr<BearerTokens> ParseTokenFile(absl::string_view text,
                                            const TenantQuota& defaults);

}  // namespace attn
