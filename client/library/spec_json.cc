#include "client/library/spec_json.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "proto/codec/spec_codec.h"

namespace attn {

absl::StatusOr<AttentionSpec> ParseSpecJson(const std::string& text,
                                            const std::string& name) {
  v1::AttentionSpec message;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &message);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": not an attention.v1.AttentionSpec: ",
        std::string(parsed.message().data(), parsed.message().size())));
  }
  auto spec = DecodeSpec(message);
  if (spec.ok()) return spec;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", spec.status().message()));
}

}  // namespace attn
