#include "client/cli/plan_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/choices.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/spec_flags.h"
#include "client/cli/text_table.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kPlanFooter[] = R"(
Sends no tensor data: only types and shapes.

Examples:
  attn plan --shape 1,8,8,512,512,64 --causal
  attn plan --shape 1,32,8,1,4096,128,128 --dtype bf16 --want output,weights
  attn plan --input qkv.npz --softcap 30)";

struct PlanFlags {
  InputFlags input;
  SpecFlags spec;
  std::vector<int64_t> shape;
  std::vector<std::string> want;
};

// Views without data for --shape B,Hq,Hkv,Sq,Sk,D[,Dv].
absl::Status SetShapes(const PlanFlags& flags, AttentionArgs& args) {
  const std::vector<int64_t>& s = flags.shape;
  if (s.size() != 6 && s.size() != 7) {
    return FieldError("--shape", absl::StrCat(s.size(), " numbers"),
                      "B,Hq,Hkv,Sq,Sk,D or B,Hq,Hkv,Sq,Sk,D,Dv");
  }
  DType dtype = DType::kF32;
  if (!flags.input.dtype.empty()) {
    const auto parsed = ParseFloatDType(flags.input.dtype, "--dtype");
    if (!parsed.ok()) return parsed.status();
    dtype = *parsed;
  }
  const std::vector<int64_t> dims[] = {{s[0], s[1], s[3], s[5]},
                                       {s[0], s[2], s[4], s[5]},
                                       {s[0], s[2], s[4], s.back()}};
  TensorView* views[] = {&args.q, &args.k, &args.v};
  for (size_t i = 0; i < 3; ++i) {
    const auto shape = Shape::Create(dims[i], SizeOf(dtype), "--shape");
    if (!shape.ok()) return shape.status();
    *views[i] = TensorView::Dense(nullptr, dtype, *shape);
  }
  return absl::OkStatus();
}

// From files, or from --shape and the spec's flags alone.
absl::StatusOr<AttendInputs> ReadPlanInputs(const PlanFlags& flags) {
  if (flags.shape.empty()) return ReadInputs(flags.input, flags.spec);
  AttendInputs inputs;
  auto request = ReadSpec(flags.spec, flags.input.read_options());
  if (!request.ok()) return request.status();
  inputs.request = *std::move(request);
  inputs.q_lengths = flags.spec.q_lengths;
  inputs.kv_lengths = flags.spec.kv_lengths;
  return inputs;
}

std::string DescribePlan(const v1::PlanResponse& plan) {
  TextTable facts({"plan", ""});
  facts.AddRow({"kernel", plan.kernel()});
  facts.AddRow({"pipeline", plan.pipeline()});
  facts.AddRow({"scale", FormatNumber(plan.effective_scale())});
  facts.AddRow({"work", FormatFlops(plan.flops())});
  facts.AddRow(
      {"tensors", FormatBytes(static_cast<double>(plan.tensor_bytes()))});
  facts.AddRow({"scratch of a worker",
                FormatBytes(static_cast<double>(plan.worker_scratch_bytes()))});
  facts.AddRow({"scratch of the call",
                FormatBytes(static_cast<double>(plan.call_scratch_bytes()))});
  facts.AddRow({"tile jobs", absl::StrCat(plan.tile_jobs())});
  TextTable kernels({"", "kernel", "verdict"});
  for (const v1::KernelVerdict& verdict : plan.verdicts()) {
    kernels.AddRow(
        {verdict.kernel() == plan.kernel() ? "->" : "", verdict.kernel(),
         verdict.supported() ? "supported"
                             : absl::StrCat("no: ", verdict.reason())});
  }
  return absl::StrCat(facts.ToString(), "\n", kernels.ToString());
}

ExitCode RunPlan(const PlanFlags& flags, const GlobalOptions& options) {
  const auto inputs = ReadPlanInputs(flags);
  if (!inputs.ok()) return ReportUsageError(inputs.status());
  AttendMessage message = inputs->Message();
  if (!flags.shape.empty()) {
    absl::Status status = SetShapes(flags, message.args);
    if (!status.ok()) return ReportUsageError(status);
  }
  message.kernel = flags.spec.kernel;
  message.wanted.output = flags.want.empty();
  for (const std::string& name : flags.want) {
    absl::Status status = Want(name, message.wanted);
    if (!status.ok()) return ReportUsageError(status);
  }
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto plan = client->Plan(message);
  if (!plan.ok()) return ReportCallError(plan.status());
  std::fputs(options.json ? (ToJson(*plan).dump(2) + "\n").c_str()
                          : DescribePlan(*plan).c_str(),
             stdout);
  return ExitCode::kOk;
}

}  // namespace

void AddPlanCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "plan", "Explain how a call would be computed and what it costs");
  command->footer(kPlanFooter);
  auto flags = std::make_shared<PlanFlags>();
  AddInputFlags(*command, flags->input);
  AddSpecFlags(*command, flags->spec);
  command
      ->add_option("--shape", flags->shape,
                   "B,Hq,Hkv,Sq,Sk,D[,Dv] instead of files")
      ->delimiter(',')
      ->excludes(command->get_option("--input"))
      ->group("Input");
  command->add_option("--want", flags->want, "Outputs, as for attend")
      ->delimiter(',')
      ->transform(OneOf(OutputNames()))
      ->type_name("NAME")
      ->group("Output");
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunPlan(*flags, options); };
  });
}

}  // namespace attn
