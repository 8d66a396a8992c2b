#include "tests/bench/serving/bench_calls.h"

#include <stdexcept>

#include "client/load/payload.h"
#include "tests/bench/probe.h"

namespace attn {

CallProfile ProfileOf(const std::string& shape, DType dtype) {
  CallProfile profile;
  profile.shape = ParseCallShape(shape).value();
  profile.dtype = dtype;
  return profile;
}

grpc::ByteBuffer RequestOf(const CallProfile& profile) {
  return MakePayloads(profile, 1).value().front().request;
}

size_t AnswerBytes(const std::string& address,
                   const grpc::ByteBuffer& request) {
  const auto answer = ChannelTo(address).Call(kAttendMethod, request, {});
  if (!answer.ok()) throw std::runtime_error(answer.status().ToString());
  return answer->Length();
}

double ServedMicros(const RawChannel& channel, const grpc::ByteBuffer& request,
                    double seconds, double percentile) {
  return MicrosAt(
      TimesFor(seconds, RemoteCall(channel, kAttendMethod, request)),
      percentile);
}

}  // namespace attn
