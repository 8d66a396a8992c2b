#include "client/cli/attend_command.h"

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
#include "client/cli/compare.h"
#include "client/cli/spec_flags.h"
#include "client/cli/waiting_line.h"
#include "client/library/outputs.h"

namespace attn {
namespace {

// Differences that float32 arithmetic explains, and those of 16-bit tensors.
constexpr Tolerance kSingle{.rtol = 1e-4, .atol = 1e-5};
constexpr Tolerance kHalf{.rtol = 2e-2, .atol = 1e-2};
constexpr Tolerance kDouble{.rtol = 1e-9, .atol = 1e-10};

constexpr char kAttendFooter[] = R"(
Tensors are [batch, heads, length, dim], of one type of float.

Examples:
  attn attend --q q.npy --k k.npy --v v.npy --causal --out out.npy
  attn attend --input qkv.npz --window 128,0 --want output,lse --out out.npz
  attn attend --input qkv.npz --program-table table=slopes.npy \
      --score-program 'score + table[h] * (k - q)'
  attn attend --input qkv.npz --spec spec.json --json
  attn attend --input example.npz --causal --compare --heatmap --head 1 \
      --tokens tokens.json)";

constexpr char kOutputGroup[] = "Output";
constexpr char kCompareGroup[] = "Comparison";
constexpr char kDrawingGroup[] = "Drawing";

struct AttendFlags {
  InputFlags input;
  SpecFlags spec;
  std::vector<std::string> want;
  std::string out;
  CallInfoFlags info;
  bool stream = false;
  bool compare = false;
  double rtol = -1;
  double atol = -1;
  bool heatmap = false;
  HeadChoice head;
  std::string tokens;
};

void AddCompareFlags(CLI::App& command, AttendFlags& flags) {
  CLI::Option* compare =
      command
          .add_flag("--compare", flags.compare,
                    "Compare with the arrays output, weights, lse, entropy "
                    "... of --input; exit 1 if they differ")
          ->group(kCompareGroup);
  command.add_option("--rtol", flags.rtol, "Relative tolerance")
      ->type_name(kNumberType)
      ->needs(compare)
      ->group(kCompareGroup);
  command.add_option("--atol", flags.atol, "Absolute tolerance")
      ->type_name(kNumberType)
      ->needs(compare)
      ->group(kCompareGroup);
}

void AddAttendFlags(CLI::App& command, AttendFlags& flags) {
  AddInputFlags(command, flags.input);
  AddSpecFlags(command, flags.spec);
  command.add_option("--want", flags.want, "Outputs; output if none is named")
      ->delimiter(',')
      ->transform(OneOf(OutputNames()))
      ->type_name("NAME")
      ->group(kOutputGroup);
  command
      .add_option("--out", flags.out,
                  "Write the wanted outputs: .npy, .npz, .safetensors or .json")
      ->type_name(kFileType)
      ->group(kOutputGroup);
  AddCompareFlags(command, flags);
  command
      .add_flag("--heatmap", flags.heatmap,
                "Draw one head: final logits beside weights")
      ->group(kDrawingGroup);
  command.add_option("--head", flags.head.head, "Head to draw")
      ->capture_default_str()
      ->group(kDrawingGroup);
  command.add_option("--batch", flags.head.batch, "Batch entry to draw")
      ->capture_default_str()
      ->group(kDrawingGroup);
  command
      .add_option("--tokens", flags.tokens,
                  "Names of the keys: a JSON list of strings, or one a line")
      ->type_name(kFileType)
      ->group(kDrawingGroup);
  AddCallInfoFlags(command, flags.info);
  command
      .add_flag("--stream", flags.stream,
                "Use AttendStream: request and response may be larger than "
                "the server's messages")
      ->group("Call");
}

// The outputs to ask for: those wanted, and those that a view needs.
absl::StatusOr<WantedOutputs> Wanted(const AttendFlags& flags,
                                     const TensorMap& expected) {
  WantedOutputs wanted;
  wanted.head_statistics = true;
  for (const std::string& name : flags.want) {
    if (absl::Status status = Want(name, wanted); !status.ok()) return status;
  }
  wanted.output |= flags.want.empty();
  wanted.masked_logits |= flags.heatmap;
  wanted.weights |= flags.heatmap;
  if (!flags.compare) return wanted;
  bool any = false;
  for (const std::string& name : OutputNames()) {
    if (expected.contains(name)) any |= Want(name, wanted).ok();
  }
  if (!any) {
    return absl::InvalidArgumentError(
        "--compare: the input file has no array named output, weights, lse, "
        "entropy ...");
  }
  return wanted;
}

Tolerance ToleranceFor(const AttendFlags& flags, DType dtype) {
  Tolerance tolerance = dtype == DType::kF32   ? kSingle
                        : dtype == DType::kF64 ? kDouble
                                               : kHalf;
  if (flags.rtol >= 0) tolerance.rtol = flags.rtol;
  if (flags.atol >= 0) tolerance.atol = flags.atol;
  return tolerance;
}

absl::StatusOr<std::vector<NamedComparison>> CompareAll(
    const AttendFlags& flags, const AttendInputs& inputs,
    const AttendResult& result) {
  std::vector<NamedComparison> comparisons;
  if (!flags.compare) return comparisons;
  const Tolerance tolerance = ToleranceFor(flags, inputs.q.dtype());
  for (const std::string& name : OutputNames()) {
    const auto expected = inputs.others.find(name);
    if (expected == inputs.others.end()) continue;
    const auto got = OutputOf(result, name);
    if (!got.ok()) return got.status();
    auto comparison = Compare(*got, expected->second, tolerance);
    if (!comparison.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", comparison.status().message()));
    }
    comparisons.push_back({name, *std::move(comparison)});
  }
  return comparisons;
}

// What was asked for by name, as against what a view needs.
std::vector<std::string> WantedNames(const AttendFlags& flags) {
  return flags.want.empty() ? std::vector<std::string>{"output"} : flags.want;
}

absl::Status WriteOutputs(const AttendFlags& flags,
                          const AttendResult& result) {
  if (flags.out.empty()) return absl::OkStatus();
  TensorMap tensors;
  for (const std::string& name : WantedNames(flags)) {
    auto tensor = OutputOf(result, name);
    if (tensor.ok()) tensors.emplace(name, *std::move(tensor));
  }
  return WriteTensors(flags.out, tensors);
}

void PrintAttendText(const AttendFlags& flags, const AttendResult& result,
                     const std::vector<std::string>& tokens,
                     const std::string& drawing,
                     const std::vector<NamedComparison>& comparisons) {
  std::string text;
  for (const std::string& name : WantedNames(flags)) {
    const auto tensor = OutputOf(result, name);
    if (tensor.ok()) text += DescribeTensor(name, *tensor);
  }
  absl::StrAppend(&text, DescribeReport(result.header.report()), "\n",
                  DescribeHeads(result.header.head_statistics(), tokens));
  if (flags.heatmap) absl::StrAppend(&text, "\n", drawing);
  if (flags.compare) text += "\n";
  bool matches = true;
  for (const NamedComparison& named : comparisons) {
    text += DescribeComparison(named);
    matches &= named.comparison.mismatches == 0;
  }
  if (flags.compare) {
    absl::StrAppend(&text,
                    Painted(matches ? "matches" : "does not match",
                            matches ? TextColour::kPassed : TextColour::kFailed,
                            WantsColour()),
                    "\n");
  }
  std::fputs(text.c_str(), stdout);
}

// Everything after the call.
ExitCode PresentOutputs(const AttendFlags& flags, const GlobalOptions& options,
                        const AttendInputs& inputs, const AttendResult& result,
                        const std::vector<std::string>& tokens) {
  const auto comparisons = CompareAll(flags, inputs, result);
  if (!comparisons.ok()) return ReportUsageError(comparisons.status());
  std::string drawing;
  if (flags.heatmap) {
    auto drawn = DrawHead(result, flags.head, tokens,
                          {.colour = WantsColour() && !options.json});
    if (!drawn.ok()) return ReportUsageError(drawn.status());
    drawing = *std::move(drawn);
  }
  if (absl::Status status = WriteOutputs(flags, result); !status.ok()) {
    return ReportUsageError(status);
  }
  if (options.json) {
    std::puts(AttendToJson(result, *comparisons).dump(2).c_str());
  } else {
    PrintAttendText(flags, result, tokens, drawing, *comparisons);
  }
  for (const NamedComparison& named : *comparisons) {
    if (named.comparison.mismatches > 0) return ExitCode::kCheckFailed;
  }
  return ExitCode::kOk;
}

absl::StatusOr<AttendResult> Call(const AttentionClient& client,
                                  const AttendMessage& message, bool stream) {
  if (!stream) return client.Attend(message);
  const auto opened = client.OpenStream();
  if (!opened.ok()) return opened.status();
  auto result = (*opened)->Attend(message);
  const absl::Status ended = (*opened)->Close();
  if (result.ok() && !ended.ok()) return ended;
  return result;
}

ExitCode RunAttend(const AttendFlags& flags, const GlobalOptions& options) {
  const auto inputs = ReadInputs(flags.input, flags.spec);
  if (!inputs.ok()) return ReportUsageError(inputs.status());
  std::vector<std::string> tokens;
  if (!flags.tokens.empty()) {
    auto read = ReadTokens(flags.tokens);
    if (!read.ok()) return ReportUsageError(read.status());
    tokens = *std::move(read);
  }
  const auto wanted = Wanted(flags, inputs->others);
  if (!wanted.ok()) return ReportUsageError(wanted.status());
  absl::Status writable = CheckOutputFile(
      flags.out, static_cast<int64_t>(WantedNames(flags).size()));
  if (!writable.ok()) return ReportUsageError(writable);
  AttendMessage message = inputs->Message();
  message.wanted = *wanted;
  message.kernel = flags.spec.kernel;
  ApplyCallInfo(flags.info, message);
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto result = [&] {
    const WaitingLine waiting("attn attend");
    return Call(*client, message, flags.stream);
  }();
  if (!result.ok()) return ReportCallError(result.status());
  return PresentOutputs(flags, options, *inputs, *result, tokens);
}

}  // namespace

void AddAttendCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "attend", "Compute attention of tensors in files: one call");
  command->footer(kAttendFooter);
  auto flags = std::make_shared<AttendFlags>();
  AddAttendFlags(*command, *flags);
  command->callback([flags, &options] {
    options.run = [flags, &options] { return RunAttend(*flags, options); };
  });
}

}  // namespace attn
