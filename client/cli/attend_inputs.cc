#include "client/cli/attend_inputs.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/choices.h"
#include "client/draw/label_text.h"
#include "client/io/file.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

constexpr int64_t kMaxTokenBytes = 64 << 20;
constexpr char kInputGroup[] = "Input";

// Moves a member out of the map; false if it is not there.
bool Take(TensorMap& tensors, const std::string& name, HostTensor& tensor) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return false;
  tensor = std::move(found->second);
  tensors.erase(found);
  return true;
}

// q, k or v: from its own file, or else from the input file.
absl::Status Load(const std::string& name, const std::string& file,
                  const InputFlags& flags, TensorMap& tensors,
                  HostTensor& tensor) {
  if (!file.empty()) {
    auto read = ReadTensor(file, flags.read_options());
    if (!read.ok()) return read.status();
    tensor = *std::move(read);
    return absl::OkStatus();
  }
  if (Take(tensors, name, tensor)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      flags.input.empty()
          ? absl::StrCat("no ", name, ": give --", name,
                         " FILE, or --input FILE with ", name, " in it")
          : absl::StrCat(flags.input, ": has no ", name));
}

void TakeLengths(TensorMap& tensors, const std::string& name,
                 std::vector<int64_t>& lengths) {
  HostTensor tensor;
  if (!Take(tensors, name, tensor) || !lengths.empty()) return;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    lengths.push_back(static_cast<int64_t>(tensor.At(i)));
  }
}

// A bias and a mask that come with the tensors.
void TakeStages(AttendInputs& inputs) {
  std::vector<HostTensor>& list = inputs.request.inputs;
  HostTensor tensor;
  if (Take(inputs.others, "bias", tensor)) {
    inputs.request.spec.biases.emplace_back(
        DenseBias{.input = static_cast<uint32_t>(list.size())});
    list.push_back(std::move(tensor));
  }
  if (Take(inputs.others, "mask", tensor)) {
    inputs.request.spec.masks.emplace_back(
        DenseMask{.input = static_cast<uint32_t>(list.size())});
    list.push_back(std::move(tensor));
  }
}

absl::Status ConvertTensors(const std::string& name, AttendInputs& inputs) {
  if (name.empty()) return absl::OkStatus();
  const auto dtype = ParseFloatDType(name, "--dtype");
  if (!dtype.ok()) return dtype.status();
  for (HostTensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
    *tensor = tensor->To(*dtype);
  }
  return absl::OkStatus();
}

// What would not be seen, would break the line or draw on the terminal.
std::string Visible(const std::string& token) {
  return CleanText(absl::StrReplaceAll(
      token, {{" ", "_"}, {"\n", "\\n"}, {"\t", "\\t"}, {"\x1b", "\\e"}}));
}

// One token a line; the last needs no end.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> tokens;
  for (const absl::string_view line :
       absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    tokens.push_back(Visible(std::string(absl::StripSuffix(line, "\r"))));
  }
  return tokens;
}

}  // namespace

void AddInputFlags(CLI::App& command, InputFlags& flags) {
  const struct {
    const char* name;
    std::string& path;
    const char* help;
  } files[] = {
      {"--input", flags.input,
       "One .npz, .safetensors or .json file with q, k, v and, if wanted, "
       "bias, mask, q_lengths, kv_lengths"},
      {"--q", flags.q,
       "Queries, [batch, heads, length, dim]: .npy or a file of one tensor"},
      {"--k", flags.k, "Keys"},
      {"--v", flags.v, "Values"},
  };
  for (const auto& file : files) {
    command.add_option(file.name, file.path, file.help)
        ->type_name(kFileType)
        ->group(kInputGroup);
  }
  command.add_option("--dtype", flags.dtype, "Convert q, k, v before sending")
      ->transform(OneOf(FloatNames()))
      ->group(kInputGroup);
  command
      .add_flag("--bf16-as-u2", flags.u2_is_bf16,
                "uint16 arrays in files hold the bits of bfloat16")
      ->group(kInputGroup);
}

AttendMessage AttendInputs::Message() const {
  AttendMessage message;
  message.spec = request.spec;
  message.args.q = q.view();
  message.args.k = k.view();
  message.args.v = v.view();
  for (const HostTensor& input : request.inputs) {
    message.args.inputs.push_back(input.view());
  }
  message.args.q_lengths = q_lengths;
  message.args.kv_lengths = kv_lengths;
  message.args.q_offsets = request.q_offsets;
  message.args.kv_offsets = request.kv_offsets;
  message.output_dtype = request.output_dtype;
  return message;
}

absl::StatusOr<AttendInputs> ReadInputs(const InputFlags& flags,
                                        const SpecFlags& spec) {
  AttendInputs inputs;
  if (!flags.input.empty()) {
    auto tensors = ReadTensors(flags.input, flags.read_options());
    if (!tensors.ok()) return tensors.status();
    inputs.others = *std::move(tensors);
  }
  absl::Status status = Load("q", flags.q, flags, inputs.others, inputs.q);
  if (status.ok()) {
    status = Load("k", flags.k, flags, inputs.others, inputs.k);
  }
  if (status.ok()) {
    status = Load("v", flags.v, flags, inputs.others, inputs.v);
  }
  if (status.ok()) status = ConvertTensors(flags.dtype, inputs);
  if (!status.ok()) return status;
  auto request = ReadSpec(spec, flags.read_options());
  if (!request.ok()) return request.status();
  inputs.request = *std::move(request);
  inputs.q_lengths = spec.q_lengths;
  inputs.kv_lengths = spec.kv_lengths;
  TakeStages(inputs);
  TakeLengths(inputs.others, "q_lengths", inputs.q_lengths);
  TakeLengths(inputs.others, "kv_lengths", inputs.kv_lengths);
  return inputs;
}

absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& path) {
  const auto text = ReadFile(path, kMaxTokenBytes);
  if (!text.ok()) return text.status();
  auto document = ParseJson(*text, path);
  // A line may begin with a bracket, as "[CLS]" does.
  const bool is_list = document.ok() && document->is_structured();
  if (!is_list && !absl::EndsWith(path, ".json")) return LinesOf(*text);
  if (!document.ok()) return document.status();
  // {"tokens": [...]} is taken too.
  const nlohmann::json& list =
      document->is_object() && document->contains("tokens")
          ? (*document)["tokens"]
          : *document;
  std::vector<std::string> tokens;
  for (const nlohmann::json& token : list) {
    if (!list.is_array() || !token.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected a list of strings"));
    }
    tokens.push_back(Visible(token.get<std::string>()));
  }
  return tokens;
}

}  // namespace attn
