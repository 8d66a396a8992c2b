#include "client/cli/backward_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/attend_inputs.h"
#include "client/cli/attend_report.h"
#include "client/cli/call_info_flags.h"
#include "client/cli/choices.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/spec_flags.h"
#include "client/cli/text_table.h"
#include "client/cli/waiting_line.h"
#include "client/io/json_tensor.h"
#include "client/library/gradients.h"

namespace attn {
namespace {

constexpr char kBackwardFooter[] = R"(
The gradients are d_q, d_k, d_v, and d_input_N for tensor N of the spec, counted
from 0: those of flags and of --spec first, then bias and mask of --input.

Examples:
  attn backward --q q.npy --k k.npy --v v.npy --d-output d_output.npy --causal \
      --out gradients.npz
  attn backward --input qkv.npz --d-output d_output.npy --want d_q --out d_q.npy
  attn backward --input qkv.npz --spec spec.json --d-lse d_lse.npy --json)";

constexpr char kGradientGroup[] = "Gradients";

struct BackwardFlags {
  InputFlags input;
  SpecFlags spec;
  std::string d_output;
  std::string d_lse;
  std::vector<std::string> want;
  std::string out;
  CallInfoFlags info;
};

void AddBackwardFlags(CLI::App& command, BackwardFlags& flags) {
  AddInputFlags(command, flags.input);
  AddSpecFlags(command, flags.spec);
  command
      .add_option("--d-output", flags.d_output,
                  "Gradient of the loss by the output, of its shape; or "
                  "d_output in --input")
      ->type_name(kFileType)
      ->group(kGradientGroup);
  command
      .add_option("--d-lse", flags.d_lse,
                  "Gradient of the loss by lse, [B, H, S]; or d_lse in "
                  "--input")
      ->type_name(kFileType)
      ->group(kGradientGroup);
  command
      .add_option("--want", flags.want,
                  "Gradients: d_q, d_k, d_v, d_input_N; all unless named")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(kGradientGroup);
  command
      .add_option("--out", flags.out,
                  "Write the gradients: .npy, .npz, .safetensors or .json")
      ->type_name(kFileType)
      ->group(kGradientGroup);
  AddCallInfoFlags(command, flags.info);
}

// The gradients that the flags name. INVALID_ARGUMENT for another name.
absl::StatusOr<GradientSelection> WantedGradients(const BackwardFlags& flags) {
  constexpr absl::string_view kInput = "d_input_";
  GradientSelection wanted;
  for (const std::string& name : flags.want) {
    uint32_t index = 0;
    if (name == "d_q") {
      wanted.q = true;
    } else if (name == "d_k") {
      wanted.k = true;
    } else if (name == "d_v") {
      wanted.v = true;
    } else if (absl::StartsWith(name, kInput) &&
               absl::SimpleAtoi(name.substr(kInput.size()), &index)) {
      wanted.inputs.push_back(index);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--want: \"", name, "\"; expected d_q, d_k, d_v or d_input_N"));
    }
  }
  return wanted;
}

// A cotangent from its own file or else from the input file; without data if it
// is in neither.
absl::StatusOr<TensorView> Cotangent(const std::string& file, const char* name,
                                     const BackwardFlags& flags,
                                     TensorMap& others) {
  if (!file.empty()) {
    auto read = ReadTensor(file, flags.input.read_options());
    if (!read.ok()) return read.status();
    others.insert_or_assign(name, *std::move(read));
  }
  const auto found = others.find(name);
  return found == others.end() ? TensorView() : found->second.view();
}

absl::Status ReadCotangents(const BackwardFlags& flags, TensorMap& others,
                            OutputGradients& cotangents) {
  auto output = Cotangent(flags.d_output, "d_output", flags, others);
  if (!output.ok()) return output.status();
  auto lse = Cotangent(flags.d_lse, "d_lse", flags, others);
  if (!lse.ok()) return lse.status();
  if (output->data == nullptr && lse->data == nullptr) {
    return absl::InvalidArgumentError(
        "no cotangent: give --d-output or --d-lse, or d_output or d_lse in "
        "--input");
  }
  cotangents.output = *std::move(output);
  cotangents.lse = *std::move(lse);
  return absl::OkStatus();
}

absl::StatusOr<TensorMap> Gradients(const BackwardResult& result) {
  TensorMap tensors;
  for (const std::string& name : GradientNames(result)) {
    auto tensor = GradientOf(result, name);
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, *std::move(tensor));
  }
  return tensors;
}

std::string DescribeScalars(const v1::AttendBackwardResponse& header) {
  std::string text = absl::StrCat("d_scale ", FormatNumber(header.d_scale()));
  if (header.d_softcap() != 0) {
    absl::StrAppend(&text, "  d_softcap ", FormatNumber(header.d_softcap()));
  }
  if (!header.d_temperatures().empty()) {
    absl::StrAppend(&text, "  d_temperatures");
    for (const double value : header.d_temperatures()) {
      absl::StrAppend(&text, " ", FormatNumber(value));
    }
  }
  return text + "\n";
}

void PrintGradients(const BackwardResult& result, const TensorMap& gradients) {
  std::string text;
  for (const auto& [name, tensor] : gradients) {
    text += DescribeTensor(name, tensor);
  }
  absl::StrAppend(&text, DescribeScalars(result.header),
                  DescribeReport(result.header.report()));
  std::fputs(text.c_str(), stdout);
}

void PrintJson(const BackwardResult& result, const TensorMap& gradients) {
  const v1::AttendBackwardResponse& header = result.header;
  nlohmann::json tensors = nlohmann::json::object();
  for (const auto& [name, tensor] : gradients) {
    tensors[name] = SummaryToJson(tensor);
  }
  nlohmann::json temperatures = nlohmann::json::array();
  for (const double value : header.d_temperatures()) {
    temperatures.push_back(NumberToJson(value));
  }
  const nlohmann::json document = {
      {"report", ToJson(header.report())},
      {"gradients", tensors},
      {"d_scale", NumberToJson(header.d_scale())},
      {"d_softcap", NumberToJson(header.d_softcap())},
      {"d_temperatures", temperatures}};
  std::puts(document.dump(2).c_str());
}

ExitCode RunBackwardCommand(const BackwardFlags& flags,
                            const GlobalOptions& options) {
  auto inputs = ReadInputs(flags.input, flags.spec);
  if (!inputs.ok()) return ReportUsageError(inputs.status());
  auto wanted = WantedGradients(flags);
  if (!wanted.ok()) return ReportUsageError(wanted.status());
  BackwardMessage message;
  static_cast<CallMessage&>(message) = inputs->Message();
  message.wanted = *std::move(wanted);
  ApplyCallInfo(flags.info, message);
  absl::Status status =
      ReadCotangents(flags, inputs->others, message.cotangents);
  if (status.ok()) {
    // Without --want they are d_q, d_k and d_v at least.
    status = CheckOutputFile(
        flags.out,
        flags.want.empty() ? 3 : static_cast<int64_t>(flags.want.size()));
  }
  if (!status.ok()) return ReportUsageError(status);
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto result = [&] {
    const WaitingLine waiting("attn backward");
    return client->AttendBackward(message);
  }();
  if (!result.ok()) return ReportCallError(result.status());
  const auto gradients = Gradients(*result);
  if (!gradients.ok()) return ReportCallError(gradients.status());
  if (!flags.out.empty()) status = WriteTensors(flags.out, *gradients);
  if (!status.ok()) return ReportUsageError(status);
  if (options.json) {
    PrintJson(*result, *gradients);
  } else {
    PrintGradients(*result, *gradients);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddBackwardCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command =
      app.add_subcommand("backward", "Compute the gradients of one call");
  command->footer(kBackwardFooter);
  auto flags = std::make_shared<BackwardFlags>();
  AddBackwardFlags(*command, *flags);
  command->callback([flags, &options] {
    options.run = [flags, &options] {
      return RunBackwardCommand(*flags, options);
    };
  });
}

}  // namespace attn
