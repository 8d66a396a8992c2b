#include "server/rpc/plan_handler.h"

#include <cstdint>

#include "proto/codec/attend_codec.h"
#include "server/rpc/describe_shape.h"
#include "server/rpc/layer_lookup.h"
#include "server/rpc/variant_name.h"

namespace attn {
namespace {

v1::PlanResponse Describe(const Plan& plan) {
  v1::PlanResponse response;
  response.set_kernel(plan.kernel);
  for (const KernelVerdict& verdict : plan.verdicts) {
    v1::KernelVerdict& message = *response.add_verdicts();
    message.set_kernel(verdict.kernel);
    message.set_supported(verdict.why_not.empty());
    message.set_reason(verdict.why_not);
  }
  response.set_effective_scale(plan.effective_scale);
  response.set_pipeline(plan.pipeline);
  response.set_flops(plan.flops);
  response.set_tensor_bytes(plan.tensor_bytes);
  response.set_worker_scratch_bytes(
      static_cast<int64_t>(plan.execution->worker_scratch_bytes()));
  response.set_call_scratch_bytes(
      static_cast<int64_t>(plan.execution->call_scratch_bytes()));
  response.set_tile_jobs(plan.tile_jobs());
  return response;
}

}  // namespace

absl::StatusOr<v1::PlanResponse> PlanHandler::Handle(
    const v1::PlanRequest& request, CallRecord& record) {
  auto call = DecodePlanRequest(request);
  if (!call.ok()) return call.status();
  absl::Status found = AppendLayers(layers_, *call);
  if (!found.ok()) return found;
  record.variant = VariantName(call->spec);
  record.shape = DescribeShape(call->args);
  auto plan = engine_.Plan(call->spec, call->args, call->wanted.Selection(),
                           call->output_dtype, call->kernel);
  if (!plan.ok()) return NameLayers(plan.status(), *call);
  record.kernel = (*plan)->kernel;
  return Describe(**plan);
}

}  // namespace attn
