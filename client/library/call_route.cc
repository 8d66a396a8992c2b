#include "client/library/call_route.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace attn {
namespace {

// With anything else gRPC would end the process.
bool IsHeaderValue(const std::string& value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

}  // namespace

void CallRoute::AddTo(grpc::ClientContext& context) const {
  if (IsHeaderValue(owner)) context.AddMetadata(kRouteMetadata, owner);
  if (IsHeaderValue(session_id)) {
    context.AddMetadata(kSessionMetadata, session_id);
  }
}

}  // namespace attn
