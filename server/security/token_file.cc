#include "server/security/token_file.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/security/tenant_name.h"

namespace attn {
namespace {

constexpr char kNoToken[] = "-";

absl::Status Bad(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

bool IsToken(absl::string_view text) {
  return text.size() <= kMaxTokenSize &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

// Up to the first word that begins a comment.
std::vector<absl::string_view> WordsOf(absl::string_view line) {
  std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  const auto comment =
      std::find_if(words.begin(), words.end(),
                   [](absl::string_view word) { return word[0] == '#'; });
  words.erase(comment, words.end());
  return words;
}

// Of one line; absent where it says nothing.
struct LineQuota {
  std::optional<int64_t> max_requests;
  std::optional<int64_t> max_inflight_bytes;

  bool given() const {
    return max_requests.has_value() || max_inflight_bytes.has_value();
  }
};

// Reads the file line by line into a set. Thread-compatible.
class TokenFileReader {
 public:
  explicit TokenFileReader(const TenantQuota& defaults) : defaults_(defaults) {}

  absl::Status ReadLine(int line, absl::string_view text);
  BearerTokens Take() { return std::move(set_); }

 private:
  absl::Status AddToken(int line, const std::string& tenant,
                        absl::string_view token);
  absl::Status AddQuota(int line, const std::string& tenant,
                        const LineQuota& quota);

  const TenantQuota defaults_;
  BearerTokens set_;
  std::map<TokenDigest, int> token_lines_;
  std::map<std::string, int> quota_lines_;
};

absl::StatusOr<LineQuota> ReadQuota(
    int line, const std::vector<absl::string_view>& words) {
  LineQuota quota;
  for (size_t i = 2; i < words.size(); ++i) {
    absl::string_view number = words[i];
    std::optional<int64_t>* target = nullptr;
    if (absl::ConsumePrefix(&number, "max-requests=")) {
      target = &quota.max_requests;
    } else if (absl::ConsumePrefix(&number, "max-inflight-bytes=")) {
      target = &quota.max_inflight_bytes;
    }
    int64_t value = 0;
    if (target == nullptr || target->has_value() ||
        !absl::SimpleAtoi(number, &value) || value < 0) {
      return Bad(line,
                 "after the token stand max-requests=N and "
                 "max-inflight-bytes=N, each once at most, N >= 0");
    }
    *target = value;
  }
  return quota;
}

absl::Status TokenFileReader::ReadLine(int line, absl::string_view text) {
  const std::vector<absl::string_view> words = WordsOf(text);
  if (words.empty()) return absl::OkStatus();
  if (!IsTenantName(words[0])) {
    return Bad(line,
               absl::StrCat("a tenant's name is 1 to ", kMaxTenantNameSize,
                            " letters, digits and . _ ~ : / @ % + -"));
  }
  if (words.size() < 2) return Bad(line, "a tenant without a token");
  const std::string tenant(words[0]);
  auto quota = ReadQuota(line, words);
  if (!quota.ok()) return quota.status();
  absl::Status status = AddToken(line, tenant, words[1]);
  if (!status.ok()) return status;
  return AddQuota(line, tenant, *quota);
}

absl::Status TokenFileReader::AddToken(int line, const std::string& tenant,
                                       absl::string_view token) {
  if (token == kNoToken) {
    set_.AddCertificate(tenant);
    return absl::OkStatus();
  }
  if (!IsToken(token)) {
    return Bad(line, absl::StrCat("a token is visible ASCII, at most ",
                                  kMaxTokenSize, " bytes"));
  }
  const TokenDigest digest = DigestOf(token);
  const auto [first, is_new] = token_lines_.emplace(digest, line);
  if (!is_new) {
    return Bad(line, absl::StrCat("the token of line ", first->second,
                                  " stands here again"));
  }
  if (token_lines_.size() > kMaxTokens) {
    return Bad(line, absl::StrCat("more than ", kMaxTokens, " tokens"));
  }
  set_.AddToken(digest, tenant);
  return absl::OkStatus();
}

absl::Status TokenFileReader::AddQuota(int line, const std::string& tenant,
                                       const LineQuota& quota) {
  TenantQuota& kept = set_.AddTenant(tenant).quota;
  const auto first = quota_lines_.find(tenant);
  if (first == quota_lines_.end()) {
    kept.max_requests = quota.max_requests.value_or(defaults_.max_requests);
    kept.max_inflight_bytes =
        quota.max_inflight_bytes.value_or(defaults_.max_inflight_bytes);
  } else if (quota.given()) {
    return Bad(line, absl::StrCat("the quota of this tenant stands on line ",
                                  first->second, " already"));
  }
  if (quota.given()) quota_lines_.emplace(tenant, line);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BearerTokens> ParseTokenFile(absl::string_view text,
                                            const TenantQuota& defaults) {
  TokenFileReader reader(defaults);
  int line = 0;
  for (const absl::string_view each : absl::StrSplit(text, '\n')) {
    absl::Status status = reader.ReadLine(++line, each);
    if (!status.ok()) return status;
  }
  BearerTokens set = reader.Take();
  if (set.empty()) return absl::InvalidArgumentError("it names no tenant");
  return set;
}

}  // namespace attn
