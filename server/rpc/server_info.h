// GetServerInfo: what this server is and what it accepts.
#pragma once

#include "engine/core/isa_cap.h"
#include "engine/runtime/cpu_quota.h"
#include "proto/codec/schema.h"

namespace attn {

// The parts that only the assembly knows.
struct ServerFacts {
  CpuQuota quota;
  int compute_threads = 0;
  IsaCap max_isa = IsaCap::kNative;
  v1::Limits limits;
};

// The whole answer; it never changes while the server lives.
v1::GetServerInfoResponse DescribeServer(const ServerFacts& facts);

}  // namespace attn
