// Calls that the rows send.
#pragma once

#include <cstddef>
#include <string>

#include "client/library/raw_call.h"
#include "client/load/call_profile.h"
#include "client/load/hdr_histogram.h"

namespace attn {

inline constexpr char kTinyShape[] = "1,4,4,16,16,32";
inline constexpr char kLargeShape[] = "1,8,8,512,512,64";

// A profile of ParseCallShape()'s form. Dies if the shape cannot be meant: a
// fault of the benchmark's.
CallProfile ProfileOf(const std::string& shape, DType dtype = DType::kF32);

// An encoded AttendRequest.
grpc::ByteBuffer RequestOf(const CallProfile& profile);

// Bytes of the answer of the server at `address`. Throws if the call fails.
size_t AnswerBytes(const std::string& address, const grpc::ByteBuffer& request);

// Microseconds at that percentile, of one caller that waits for each answer.
double ServedMicros(const RawChannel& channel, const grpc::ByteBuffer& request,
                    double seconds, double percentile);

}  // namespace attn
