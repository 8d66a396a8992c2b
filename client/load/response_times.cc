#include "client/load/response_times.h"

#include <cstdint>
#include <string>

#include "attention/v1/attention.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t kReportTag = (v1::AttendResponse::kReportFieldNumber << 3) |
                                WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

std::optional<ServerTimes> TimesOf(const std::string& bytes) {
  v1::CallReport report;
  if (!report.ParseFromString(bytes) || !report.has_timings()) {
    return std::nullopt;
  }
  return ServerTimes{.queue_ns = report.timings().queue_ns(),
                     .compute_ns = report.timings().compute_ns()};
}

}  // namespace

std::optional<ServerTimes> ReadServerTimes(const grpc::ByteBuffer& response) {
  grpc::ByteBuffer bytes = response;  // The reader wants it mutable.
  grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok()) return std::nullopt;
  google::protobuf::io::CodedInputStream stream(&reader);
  for (uint32_t tag = stream.ReadTag(); tag != 0; tag = stream.ReadTag()) {
    if (tag != kReportTag) {
      if (!WireFormatLite::SkipField(&stream, tag)) return std::nullopt;
      continue;
    }
    uint32_t length = 0;
    std::string report;
    if (!stream.ReadVarint32(&length) || length > INT32_MAX ||
        !stream.ReadString(&report, static_cast<int>(length))) {
      return std::nullopt;
    }
    return TimesOf(report);
  }
  return std::nullopt;
}

}  // namespace attn
