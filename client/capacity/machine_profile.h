// What steps of sessions cost on one kind of machine, as measured there.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/core/dtype.h"

namespace attn {

// Of keys and values of one type, on one core.
struct ReadCost {
  // Each element of k and v that is read.
  double element_seconds = 0;
  // Each multiply-add of q with k, or of a weight with v.
  double multiply_add_seconds = 0;
};

// A frame of HTTP/2.
inline constexpr double kFirstBytes = 16384;

// Times are CPU times. tests/bench/capacity.sh measures a machine and writes
// the file. A value.
struct MachineProfile {
  std::string name;
  // "2026-12-01"
  std::string measured;
  // That read memory when bus_bytes_per_second was measured.
  int cores = 0;
  // A call, whatever is in it.
  double call_seconds = 0;
  // A layer of a step.
  double layer_seconds = 0;
  // A byte of tensors, in or out.
  double payload_byte_seconds = 0;
  // Each of the first kFirstBytes of those besides: small messages cost more.
  double first_byte_seconds = 0;
  ReadCost f32;
  ReadCost bf16;
  ReadCost f16;
  ReadCost i8;
  // A multiply-add of steps of many tokens.
  double prefill_multiply_add_seconds = 0;
  // All cores together.
  double bus_bytes_per_second = 0;
  // Squared coefficient of variation of the time of like calls.
  double service_variation = 0;
  // Resident before there is a session.
  double base_bytes = 0;
  // HTTP/2, gRPC and the message without tensors, of a call.
  double header_bytes_in = 0;
  double header_bytes_out = 0;
  // Of a layer 7 proxy's core: a call, and a byte that it passes on.
  double proxy_call_seconds = 0;
  double proxy_byte_seconds = 0;

  // `dtype` is F32, BF16, F16 or I8.
  const ReadCost& read(DType dtype) const;
};

// INVALID_ARGUMENT begins with `path` and names the member: one that is
// missing, is no number, or is out of range. Members that are not known are
// passed over.
absl::StatusOr<MachineProfile> ParseMachineProfile(const std::string& text,
                                                   const std::string& path);

// machines/epyc_2c.json, which is part of the program.
const MachineProfile& DefaultMachine();

}  // namespace attn
