// A machine of round numbers, for sums that can be done by hand.
#pragma once

#include "client/capacity/machine_profile.h"
#include "client/capacity/replica_model.h"
#include "client/capacity/workload.h"

namespace attn {

inline MachineProfile PlainMachine() {
  MachineProfile machine;
  machine.name = "plain";
  machine.cores = 4;
  machine.call_seconds = 1e-4;
  machine.layer_seconds = 1e-5;
  machine.payload_byte_seconds = 1e-9;
  machine.first_byte_seconds = 2e-9;
  machine.f32 = {2e-10, 1e-11};
  machine.bf16 = {1e-10, 1e-11};
  machine.f16 = {1e-10, 1e-11};
  machine.i8 = {1e-10, 1e-11};
  machine.prefill_multiply_add_seconds = 1e-11;
  machine.bus_bytes_per_second = 1e12;
  machine.base_bytes = 1e7;
  machine.header_bytes_in = 200;
  machine.header_bytes_out = 100;
  machine.proxy_call_seconds = 5e-5;
  machine.proxy_byte_seconds = 1e-9;
  return machine;
}

// One layer of one head of 100 elements: a step of 1000 tokens reads 200,000
// elements and makes as many multiply-adds.
inline SessionWorkload PlainWorkload() {
  SessionWorkload workload;
  workload.tokens = 1000;
  workload.rate = 10;
  workload.layers = 1;
  workload.q_heads = 1;
  workload.kv_heads = 1;
  workload.k_dim = 100;
  workload.v_dim = 100;
  workload.kv_dtype = DType::kF32;
  workload.dtype = DType::kF32;
  return workload;
}

// The time of such a step: a call, a layer, 1200 + 400 bytes, elements and
// products.
inline constexpr double kPlainStep = 1e-4 + 1e-5 + 3 * 1600e-9 + 4e-5 + 2e-6;

}  // namespace attn
