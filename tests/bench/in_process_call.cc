#include "tests/bench/in_process_call.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace attn {

absl::StatusOr<std::unique_ptr<InProcessCall>> InProcessCall::Create(
    Engine& engine, const CallProfile& profile) {
  auto payloads = MakePayloads(profile, 1);
  if (!payloads.ok()) return payloads.status();
  std::unique_ptr<InProcessCall> call(
      new InProcessCall(engine, std::move(payloads->front())));
  call->args_.q = call->payload_.q.view();
  call->args_.k = call->payload_.k.view();
  call->args_.v = call->payload_.v.view();
  auto plan = engine.Plan(profile.Spec(), call->args_, OutputSelection{},
                          profile.dtype);
  if (!plan.ok()) return plan.status();
  call->plan_ = *std::move(plan);
  const AttentionShape& s = profile.shape;
  call->output_ =
      HostTensor(profile.dtype, {s.batch, s.q_heads, s.q_length, s.v_dim});
  call->outputs_.output = MutableTensorView::Dense(
      call->output_.data(), profile.dtype, call->output_.shape());
  return call;
}

void InProcessCall::Run() {
  const CallReport report = engine_.Run(plan_, args_, outputs_);
  if (report.status.ok()) return;
  std::fprintf(stderr, "%s\n", report.status.ToString().c_str());
  std::abort();
}

}  // namespace attn
