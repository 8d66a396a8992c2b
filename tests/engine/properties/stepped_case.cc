#include "tests/engine/properties/stepped_case.h"

#include <utility>

#include "engine/core/aligned_buffer.h"
#include "engine/tile/convert.h"

namespace attn::testing {
namespace {

constexpr int64_t kPoolBytes = int64_t{64} << 20;

Engine& SteppingEngine() {
  static Engine& engine = *new Engine({.workers = 2});
  return engine;
}

// Rows [begin, begin + count) of [1, H, S, D].
TensorView RowsOfTensor(const TensorView& tensor, int64_t begin,
                        int64_t count) {
  TensorView rows = tensor;
  rows.shape = {1, tensor.shape[1], count, tensor.shape[3]};
  rows.data +=
      begin * tensor.strides[2] * static_cast<int64_t>(SizeOf(tensor.dtype));
  return rows;
}

double ElementAt(const std::byte* from, DType dtype) {
  float value = 0;
  LoadElements(from, dtype, 1, 1, &value);
  return static_cast<double>(value);
}

std::vector<double> OutputOf(const AttentionSpec& spec,
                             const AttentionArgs& described,
                             const AttentionArgs& args) {
  const DType dtype = args.q.dtype;
  const auto plan =
      SteppingEngine().Plan(spec, described, OutputSelection{}, dtype);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const Shape& q = args.q.shape;
  const Shape shape{1, q[1], q[2], args.v.shape[3]};
  AlignedBuffer memory(static_cast<size_t>(shape.element_count()) *
                       SizeOf(dtype));
  AttentionOutputs outputs;
  outputs.output = MutableTensorView::Dense(memory.data(), dtype, shape);
  const CallReport report = SteppingEngine().Run(*plan, args, outputs);
  EXPECT_TRUE(report.status.ok()) << report.status;
  std::vector<double> values;
  for (size_t at = 0; at < memory.size(); at += SizeOf(dtype)) {
    values.push_back(ElementAt(memory.data() + at, dtype));
  }
  return values;
}

}  // namespace

struct SteppedCase::Session {
  Session(const oracle::VariantCase& call, DType dtype)
      : run(call, dtype), pool(kPoolBytes) {}

  VariantRun run;
  KvBlockPool pool;
  KvLayout layout;
  std::unique_ptr<const StepSpec> steps;
};

absl::StatusOr<SteppedCase> SteppedCase::Make(const oracle::VariantCase& call,
                                              DType dtype, DType kept) {
  const AttentionShape& s = call.shape;
  auto session = std::make_shared<Session>(call, dtype);
  session->layout = {.kv_heads = s.kv_heads,
                     .k_dim = s.k_dim,
                     .v_dim = s.v_dim,
                     .dtype = kept};
  auto steps = StepSpec::Make(call.spec, session->run.args().inputs,
                              session->layout, s.q_heads, s.q_dim);
  if (!steps.ok()) return steps.status();
  session->steps = std::make_unique<const StepSpec>(*std::move(steps));
  return SteppedCase(std::move(session));
}

SteppedCase::SteppedCase(std::shared_ptr<Session> session)
    : session_(std::move(session)),
      sequence_(session_->layout, session_->pool) {}

std::vector<double> SteppedCase::Step(int64_t begin, int64_t count) {
  const StepSpec& steps = *session_->steps;
  const KeyWindow& window = steps.window();
  const int64_t position = sequence_.length();
  if (window.bounded && position > window.left) {
    sequence_.Release(window.keep, position - window.left);
  }
  const absl::Status reserved = sequence_.Reserve(count);
  EXPECT_TRUE(reserved.ok()) << reserved;
  if (!reserved.ok()) return {};
  const AttentionArgs& tensors = session_->run.args();
  sequence_.Append(RowsOfTensor(tensors.k, begin, count),
                   RowsOfTensor(tensors.v, begin, count), steps.preparation());
  AttentionArgs args = steps.Args(position + count);
  args.q = RowsOfTensor(tensors.q, begin, count);
  const AttentionArgs described = args;
  args.kv_blocks = sequence_.Describe();
  return OutputOf(steps.At(position), described, args);
}

absl::Status SteppedCase::Rollback(int64_t position) {
  return sequence_.Truncate(position, session_->steps->window().seen());
}

std::vector<double> SteppedCase::WholeCall() const {
  const AttentionArgs& args = session_->run.args();
  return OutputOf(session_->steps->whole(), args, args);
}

}  // namespace attn::testing
