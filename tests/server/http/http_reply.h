// An answer of HTTP, as a client reads it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

struct HttpReply {
  // 0: none came.
  int status = 0;
  // Names in lower case.
  std::map<std::string, std::string> headers;
  std::string body;

  // Empty if there is none.
  std::string Header(const std::string& name) const;
};

// The status line and the headers, without the empty line behind them; status 0
// if that is no answer of HTTP/1.1.
HttpReply ReadHead(absl::string_view head);

// Of the body that follows such a head, by its Content-Length.
size_t BodySize(const HttpReply& reply, bool only_header);

// "POST /v1/plan HTTP/1.1" with the headers, a Host, and a Content-Length if
// there is a body.
struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  std::string body{};
  std::vector<std::string> headers{};
};
std::string RequestText(const HttpCall& call);

}  // namespace attn
