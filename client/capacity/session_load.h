// What one session asks of the server that keeps it.
#pragma once

#include <vector>

#include "client/capacity/machine_profile.h"
#include "client/capacity/workload.h"

namespace attn {

// Ethernet, IP and TCP send 1538 bytes for 1448 of a stream: a maximum
// transmission unit of 1500, timestamps, and preamble, header, checksum and gap
// of a frame.
inline constexpr double kWireShare = 1538.0 / 1448.0;
inline constexpr double kBitsPerByte = 8;

// Where calls are computed. A value.
struct ComputeSite {
  int cores = 1;
  // Of memory, all cores together.
  double bus_bytes_per_second = 0;
};

// What one call costs. A value.
struct CallDemand {
  // On one core that has the memory to itself.
  double cpu_seconds = 0;
  // As if all cores of the site read memory at once: what a queue must reckon
  // with.
  double service_seconds = 0;
  // Of keys and values.
  double bus_bytes = 0;
  // On the wire.
  double bytes_in = 0;
  double bytes_out = 0;
};

CallDemand StepDemand(const MachineProfile& machine,
                      const SessionWorkload& workload, const ComputeSite& site);
CallDemand PrefillDemand(const MachineProfile& machine,
                         const SessionWorkload& workload,
                         const ComputeSite& site, int64_t chunk);

// Calls of one kind. A value.
struct DemandClass {
  // Of one session.
  double calls_per_second = 0;
  CallDemand cost;
};

// All kinds of calls of a session: steps of one token first, then those of
// prompts, chunk by chunk.
std::vector<DemandClass> DemandClasses(const MachineProfile& machine,
                                       const SessionWorkload& workload,
                                       const ComputeSite& site);

// All calls of one session, steps of one token and those of prompts. A value.
struct SessionLoad {
  double calls_per_second = 0;
  CallDemand step;
  // Means over all calls.
  CallDemand mean;
  // Squared coefficient of variation of service_seconds over all calls, that of
  // like calls included.
  double variation = 0;
  // Of like calls.
  double step_variation = 0;
  double memory_bytes = 0;
  // Cores wait for memory when all of them compute.
  bool bus_bound = false;
};

SessionLoad LoadOfSession(const MachineProfile& machine,
                          const SessionWorkload& workload,
                          const ComputeSite& site);

}  // namespace attn
