#include "client/capacity/session_load.h"

#include <algorithm>

namespace attn {
namespace {

// What a call costs beside its kernels, and its way over the network.
CallDemand DemandBesideKernels(const MachineProfile& machine,
                               const CallVolume& volume) {
  CallDemand cost;
  const double payload = volume.payload_in + volume.payload_out;
  cost.cpu_seconds =
      machine.call_seconds + volume.layers * machine.layer_seconds +
      payload * machine.payload_byte_seconds +
      std::min(payload, kFirstBytes) * machine.first_byte_seconds;
  cost.bytes_in = (volume.payload_in + machine.header_bytes_in) * kWireShare;
  cost.bytes_out = (volume.payload_out + machine.header_bytes_out) * kWireShare;
  cost.bus_bytes = volume.bytes;
  return cost;
}

CallDemand WithKernels(CallDemand cost, double kernel_seconds,
                       const ComputeSite& site) {
  const double shared = cost.bus_bytes * site.cores / site.bus_bytes_per_second;
  cost.service_seconds = cost.cpu_seconds + std::max(kernel_seconds, shared);
  cost.cpu_seconds += kernel_seconds;
  return cost;
}

// Sums over calls, weighted by calls a second.
class CallMix {
 public:
  void Add(double calls, const CallDemand& cost) {
    calls_ += calls;
    sum_.cpu_seconds += calls * cost.cpu_seconds;
    sum_.service_seconds += calls * cost.service_seconds;
    sum_.bus_bytes += calls * cost.bus_bytes;
    sum_.bytes_in += calls * cost.bytes_in;
    sum_.bytes_out += calls * cost.bytes_out;
    squares_ += calls * cost.service_seconds * cost.service_seconds;
  }
  double calls() const { return calls_; }
  CallDemand Mean() const {
    return {sum_.cpu_seconds / calls_, sum_.service_seconds / calls_,
            sum_.bus_bytes / calls_, sum_.bytes_in / calls_,
            sum_.bytes_out / calls_};
  }
  // If like calls vary by `within`: E[S^2] / E[S]^2 - 1.
  double Variation(double within) const {
    const double mean = sum_.service_seconds / calls_;
    const double spread = squares_ / calls_ / (mean * mean);
    return std::max(0.0, spread * (1 + within) - 1);
  }

 private:
  double calls_ = 0;
  CallDemand sum_;
  double squares_ = 0;
};

}  // namespace

CallDemand StepDemand(const MachineProfile& machine,
                      const SessionWorkload& workload,
                      const ComputeSite& site) {
  const CallVolume volume = StepVolume(workload);
  const ReadCost& read = machine.read(workload.kv_dtype);
  return WithKernels(DemandBesideKernels(machine, volume),
                     volume.elements * read.element_seconds +
                         volume.multiply_adds * read.multiply_add_seconds,
                     site);
}

CallDemand PrefillDemand(const MachineProfile& machine,
                         const SessionWorkload& workload,
                         const ComputeSite& site, int64_t chunk) {
  const CallVolume volume = PrefillVolume(workload, chunk);
  return WithKernels(
      DemandBesideKernels(machine, volume),
      volume.multiply_adds * machine.prefill_multiply_add_seconds, site);
}

std::vector<DemandClass> DemandClasses(const MachineProfile& machine,
                                       const SessionWorkload& workload,
                                       const ComputeSite& site) {
  std::vector<DemandClass> classes = {
      {workload.calls_per_second(), StepDemand(machine, workload, site)}};
  // A session lives until its prompt has grown to all its tokens.
  const double begun =
      workload.rate / static_cast<double>(workload.tokens - workload.prompt);
  for (int64_t chunk = 0; chunk < PrefillChunks(workload); ++chunk) {
    classes.push_back({begun * workload.calls_per_token(),
                       PrefillDemand(machine, workload, site, chunk)});
  }
  return classes;
}

SessionLoad LoadOfSession(const MachineProfile& machine,
                          const SessionWorkload& workload,
                          const ComputeSite& site) {
  const std::vector<DemandClass> classes =
      DemandClasses(machine, workload, site);
  CallMix mix;
  for (const DemandClass& one : classes)
    mix.Add(one.calls_per_second, one.cost);
  SessionLoad load;
  load.step = classes.front().cost;
  load.step_variation = machine.service_variation;
  load.bus_bound = load.step.service_seconds > load.step.cpu_seconds;
  load.memory_bytes = workload.session_bytes();
  load.calls_per_second = mix.calls();
  load.mean = mix.Mean();
  load.variation = mix.Variation(machine.service_variation);
  return load;
}

}  // namespace attn
