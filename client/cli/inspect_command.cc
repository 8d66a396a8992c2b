#include "client/cli/inspect_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/attend_report.h"
#include "client/cli/call_info_flags.h"
#include "client/cli/choices.h"
#include "client/cli/colour.h"
#include "client/cli/inspect_flags.h"
#include "client/cli/inspect_report.h"
#include "client/cli/spec_flags.h"
#include "client/cli/waiting_line.h"
#include "client/library/inspection.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kInspectFooter[] = R"(
Examples:
  attn inspect --input qkv.npz --causal
  attn inspect --input qkv.npz --view masked_logits,weights --part 0,3,:16,:16
  attn inspect --input qkv.npz --view weights --tile 64,64 --pool max
  attn inspect --input qkv.npz --sweep 0.5,1,2 --json
  attn inspect --input qkv.npz --view gradient_weight --d-output d_output.npy \
      --out views.npz)";

constexpr char kViewGroup[] = "Views";

struct InspectCommandFlags {
  InputFlags input;
  SpecFlags spec;
  InspectFlags inspect;
  std::string d_output;
  std::string out;
  CallInfoFlags info;
  std::string tokens;
  // -1: the first of the part.
  int64_t batch = -1;
  int64_t head = -1;
  bool no_heatmap = false;
};

void AddDrawingFlags(CLI::App& command, InspectCommandFlags& flags) {
  constexpr char kGroup[] = "Drawing";
  command
      .add_option("--tokens", flags.tokens,
                  "Names of the keys: a JSON list of strings, or one a line")
      ->type_name(kFileType)
      ->group(kGroup);
  command
      .add_option("--head", flags.head, "Head to draw; the first of the part")
      ->group(kGroup);
  command
      .add_option("--batch", flags.batch,
                  "Batch entry to draw; the first of the part")
      ->group(kGroup);
  command.add_flag("--no-heatmap", flags.no_heatmap, "Draw nothing")
      ->group(kGroup);
}

void AddInspectFlags(CLI::App& command, InspectCommandFlags& flags) {
  AddInputFlags(command, flags.input);
  AddSpecFlags(command, flags.spec);
  AddInspectFlags(command, flags.inspect);
  command
      .add_option("--d-output", flags.d_output,
                  "Gradient of a loss by the output, for the view "
                  "gradient_weight; or d_output in --input")
      ->type_name(kFileType)
      ->group(kViewGroup);
  command
      .add_option("--out", flags.out,
                  "Write the views: .npy, .npz, .safetensors or .json")
      ->type_name(kFileType)
      ->group(kViewGroup);
  AddDrawingFlags(command, flags);
  AddCallInfoFlags(command, flags.info);
}

// The cotangent: an array of the --d-output file, or d_output of --input.
absl::StatusOr<HostTensor> ReadCotangent(const InspectCommandFlags& flags,
                                         const AttendInputs& inputs) {
  if (!flags.d_output.empty()) {
    return ReadTensor(flags.d_output, flags.input.read_options());
  }
  const auto found = inputs.others.find("d_output");
  if (found == inputs.others.end()) {
    return FieldError("--d-output", "nothing",
                      "a file, or an array d_output in --input");
  }
  return HostTensor::Copy(found->second.view());
}

// The views that were asked for by name.
std::vector<std::string> ScoreNames(const InspectCommandFlags& flags) {
  return flags.inspect.views.empty() ? std::vector<std::string>{"weights"}
                                     : flags.inspect.views;
}

absl::Status WriteViews(const InspectCommandFlags& flags,
                        const InspectResult& result) {
  if (flags.out.empty()) return absl::OkStatus();
  TensorMap tensors;
  for (const std::string& name : ScoreNames(flags)) {
    auto tensor = ViewOf(result, name);
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, *std::move(tensor));
  }
  return WriteTensors(flags.out, tensors);
}

absl::StatusOr<std::string> Draw(const InspectCommandFlags& flags,
                                 const AttendInputs& inputs,
                                 const InspectQuestion& question,
                                 const InspectResult& result) {
  InspectDrawing drawing;
  drawing.names = ScoreNames(flags);
  drawing.batch =
      flags.batch >= 0 ? flags.batch : question.window.batch().begin();
  drawing.head = flags.head >= 0 ? flags.head : question.window.head().begin();
  if (!flags.tokens.empty()) {
    auto tokens = ReadTokens(flags.tokens);
    if (!tokens.ok()) return tokens.status();
    drawing.tokens = *std::move(tokens);
    // Queries are the last of the keys' positions if there are fewer.
    drawing.query_offset = inputs.k.shape()[2] - inputs.q.shape()[2];
  }
  return DrawViews(result, question, drawing, {.colour = WantsColour()});
}

ExitCode PresentScores(const InspectCommandFlags& flags,
                       const GlobalOptions& options, const AttendInputs& inputs,
                       const InspectQuestion& question,
                       const InspectResult& result) {
  if (absl::Status status = WriteViews(flags, result); !status.ok()) {
    return ReportUsageError(status);
  }
  if (options.json) {
    std::puts(InspectToJson(result).dump(2).c_str());
    return ExitCode::kOk;
  }
  std::string text;
  for (const std::string& name : ScoreNames(flags)) {
    const auto tensor = ViewOf(result, name);
    if (tensor.ok()) text += DescribeTensor(name, *tensor);
  }
  const v1::InspectResponse& header = result.header;
  absl::StrAppend(&text, DescribeReport(header.report()), "\n",
                  DescribeHeads(header.head_statistics(), {}));
  if (!header.sweep().empty()) {
    absl::StrAppend(&text, "\n", DescribeSweep(header));
  }
  if (!flags.no_heatmap) {
    const auto drawing = Draw(flags, inputs, question, result);
    if (!drawing.ok()) return ReportUsageError(drawing.status());
    absl::StrAppend(&text, "\n", *drawing);
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode RunInspect(const InspectCommandFlags& flags,
                    const GlobalOptions& options) {
  const auto inputs = ReadInputs(flags.input, flags.spec);
  if (!inputs.ok()) return ReportUsageError(inputs.status());
  const auto question = ReadQuestion(flags.inspect);
  if (!question.ok()) return ReportUsageError(question.status());
  absl::Status writable = CheckOutputFile(
      flags.out, static_cast<int64_t>(ScoreNames(flags).size()));
  if (!writable.ok()) return ReportUsageError(writable);
  InspectMessage message;
  const AttendMessage call = inputs->Message();
  static_cast<CallMessage&>(message) = static_cast<const CallMessage&>(call);
  ApplyCallInfo(flags.info, message);
  message.question = *question;
  const bool draws = !flags.no_heatmap && !options.json;
  // Says which cells are masked.
  if (draws && !question->tiles) message.question.views.masked_logits = true;
  HostTensor cotangent;
  if (question->views.gradient_weight) {
    auto read = ReadCotangent(flags, *inputs);
    if (!read.ok()) return ReportUsageError(read.status());
    cotangent = *std::move(read);
    message.args.d_output = cotangent.view();
  }
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto result = [&] {
    const WaitingLine waiting("attn inspect");
    return client->Inspect(message);
  }();
  if (!result.ok()) return ReportCallError(result.status());
  return PresentScores(flags, options, *inputs, *question, *result);
}

}  // namespace

void AddInspectCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Look at scores, weights and the health of heads");
  command->footer(kInspectFooter);
  auto flags = std::make_shared<InspectCommandFlags>();
  AddInspectFlags(*command, *flags);
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunInspect(*flags, options); };
  });
}

}  // namespace attn
