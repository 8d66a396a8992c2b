#include "client/library/health_message.h"

#include <cstdint>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace attn {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Field 1 of either message.
constexpr uint32_t kServiceTag = 1 << 3 | 2;
constexpr uint32_t kStatusTag = 1 << 3 | 0;

}  // namespace

absl::string_view Name(HealthState state) {
  switch (state) {
    case HealthState::kUnknown:
      return "UNKNOWN";
    case HealthState::kServing:
      return "SERVING";
    case HealthState::kNotServing:
      return "NOT_SERVING";
    case HealthState::kServiceUnknown:
      return "SERVICE_UNKNOWN";
  }
  return "a state that this client does not know";
}

std::string EncodeHealthRequest(const std::string& service) {
  std::string bytes;
  if (service.empty()) return bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    out.WriteTag(kServiceTag);
    out.WriteVarint32(static_cast<uint32_t>(service.size()));
    out.WriteString(service);
  }
  return bytes;
}

absl::StatusOr<HealthState> DecodeHealthResponse(const std::string& bytes) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  uint32_t state = 0;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == kStatusTag ? !in.ReadVarint32(&state)
                          : !WireFormatLite::SkipField(&in, tag)) {
      return absl::InternalError("the health response is malformed");
    }
  }
  return static_cast<HealthState>(state);
}

}  // namespace attn
