#include "server/rpc/message_size.h"

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/call_decode.h"
#include "server/batching/refusal.h"

namespace attn {

absl::Status CheckMessageSize(absl::string_view what, int64_t bytes,
                              int64_t limit, absl::string_view hint) {
  if (bytes <= limit) return absl::OkStatus();
  return Refuse(
      Refusal::kTooLarge,
      absl::StrCat(what, " of ", bytes,
                   " bytes is larger than --max-message-bytes=", limit, hint));
}

absl::Status CheckMetadataSize(size_t bytes) {
  if (bytes <= static_cast<size_t>(kMaxMetadataBytes)) return absl::OkStatus();
  return Refuse(Refusal::kTooLarge,
                absl::StrCat("a request without payloads of ", bytes,
                             " bytes is larger than ", kMaxMetadataBytes));
}

absl::Status MalformedMessage(absl::string_view type) {
  return FieldError("request", "bytes that are no protobuf",
                    absl::StrCat("a message attention.v1.", type));
}

}  // namespace attn
