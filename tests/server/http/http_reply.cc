#include "tests/server/http/http_reply.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attn {

std::string HttpReply::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpReply ReadHead(absl::string_view head) {
  HttpReply reply;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(head, "\r\n")) {
    if (std::exchange(first, false)) {
      int status = 0;
      if (!absl::ConsumePrefix(&line, "HTTP/1.1 ") ||
          !absl::SimpleAtoi(line.substr(0, 3), &status)) {
        return {};
      }
      reply.status = status;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    reply.headers[absl::AsciiStrToLower(field.first)] =
        std::string(absl::StripAsciiWhitespace(field.second));
  }
  return reply;
}

size_t BodySize(const HttpReply& reply, bool only_header) {
  constexpr int kContinue = 100;
  constexpr int kNoContent = 204;
  constexpr int kNotModified = 304;
  size_t size = 0;
  const bool has_none = only_header || reply.status == kContinue ||
                        reply.status == kNoContent ||
                        reply.status == kNotModified;
  if (has_none || !absl::SimpleAtoi(reply.Header("content-length"), &size)) {
    return 0;
  }
  return size;
}

std::string RequestText(const HttpCall& call) {
  std::string text = absl::StrCat(call.method, " ", call.target,
                                  " HTTP/1.1\r\nHost: 127.0.0.1\r\n");
  for (const std::string& header : call.headers) {
    absl::StrAppend(&text, header, "\r\n");
  }
  if (!call.body.empty()) {
    absl::StrAppend(&text, "Content-Length: ", call.body.size(), "\r\n");
  }
  return absl::StrCat(text, "\r\n", call.body);
}

}  // namespace attn
