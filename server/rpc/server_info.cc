#include "server/rpc/server_info.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/dtype.h"
#include "engine/engine.h"
#include "grpcpp/grpcpp.h"
#include "proto/codec/spec_codec.h"

namespace attn {
namespace {

// Every type that the wire names.
constexpr DType kDTypes[] = {DType::kF32, DType::kF16,  DType::kBF16,
                             DType::kF64, DType::kBool, DType::kI8,
                             DType::kI32, DType::kI64};

void AddStages(v1::GetServerInfoResponse& response) {
  for (const StageInfo& stage : ListStages()) {
    v1::StageMembers& members = *response.add_stages();
    members.set_stage(stage.stage);
    for (const MemberInfo& member : stage.members) {
      v1::StageMember& message = *members.add_members();
      message.set_name(member.name);
      message.set_summary(member.summary);
    }
  }
}

// "AVX2 (class avx2, capped: avx2)"
std::string DescribeIsa(IsaCap cap) {
  return absl::StrCat(
      IsaName(), " (class ", CpuClassName(),
      cap == IsaCap::kNative ? "" : absl::StrCat(", capped: ", Name(cap)), ")");
}

}  // namespace

v1::GetServerInfoResponse DescribeServer(const ServerFacts& facts) {
  v1::GetServerInfoResponse response;
  response.set_version(ATTN_VERSION);
  response.set_isa(DescribeIsa(facts.max_isa));
  response.set_onednn_version(OneDnnVersion());
  response.set_grpc_version(grpc::Version());
  response.set_cpu_quota_cores(facts.quota.cores);
  response.set_compute_threads(facts.compute_threads);
  *response.mutable_limits() = facts.limits;
  AddStages(response);
  for (const std::string& kernel : ListKernels()) {
    response.add_kernels(kernel);
  }
  for (const DType dtype : kDTypes) {
    if (IsFloat(dtype)) response.add_dtypes(EncodeDType(dtype));
  }
  return response;
}

}  // namespace attn
