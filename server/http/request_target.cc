#include "server/http/request_target.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "boost/asio/ip/address.hpp"

namespace attn {
namespace {

bool IsHexPair(absl::string_view text) {
  return text.size() == 2 &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[0])) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[1]));
}

}  // namespace

std::optional<std::string> PercentDecode(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const absl::string_view pair = text.substr(i + 1, 2);
    if (!IsHexPair(pair)) return std::nullopt;
    decoded += absl::HexStringToBytes(pair);
    i += 2;
  }
  return decoded;
}

void ReadTarget(absl::string_view target, HttpRequest& request) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  auto path = PercentDecode(parts.first);
  if (!path.has_value()) return;
  request.path = *std::move(path);
  for (const absl::string_view part :
       absl::StrSplit(parts.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto name = PercentDecode(pair.first);
    auto value = PercentDecode(pair.second);
    if (name.has_value() && value.has_value()) {
      request.query[*name] = *std::move(value);
    }
  }
}

bool IsLocalHost(absl::string_view host) {
  absl::string_view name = host.substr(0, host.rfind(':'));
  if (absl::StartsWith(host, "[")) name = host.substr(0, host.find(']'));
  absl::ConsumePrefix(&name, "[");
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(name), error);
  // RFC 6761, section 6.3; the other is kept for private use by ICANN.
  return !error || absl::EqualsIgnoreCase(name, "localhost") ||
         absl::EndsWithIgnoreCase(name, ".localhost") ||
         absl::EndsWithIgnoreCase(name, ".internal");
}

}  // namespace attn
