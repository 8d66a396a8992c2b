#include "client/cli/spec_flags.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/choices.h"
#include "client/io/file.h"
#include "client/library/spec_json.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr int64_t kMaxSpecBytes = 16 << 20;
constexpr char kSpecGroup[] = "Spec";
constexpr char kScoreGroup[] = "Score";
constexpr char kMaskGroup[] = "Masks";

// An option whose value may be left out: "--causal", "--causal=top_left".
CLI::Option* AddOptionalValue(CLI::App& command, const std::string& name,
                              std::optional<std::string>& value,
                              const char* type, const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [&value](const std::vector<std::string>& given) {
            value = given.empty() ? "" : given[0];
          },
          help)
      ->expected(0, 1)
      ->type_name(type);
}

absl::StatusOr<std::vector<double>> ParseNumbers(const std::string& text,
                                                 const std::string& flag) {
  std::vector<double> numbers;
  if (text.empty()) return numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double number = 0;
    if (!absl::SimpleAtod(part, &number)) {
      return FieldError(flag, absl::StrCat("\"", text, "\""),
                        "numbers with commas between them");
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<AttentionSpec> ReadSpecFile(const std::string& path) {
  const auto text = ReadFile(path, kMaxSpecBytes);
  if (!text.ok()) return text.status();
  return ParseSpecJson(*text, path);
}

absl::StatusOr<std::optional<int64_t>> ParseDistance(absl::string_view text) {
  if (text == "none") return std::optional<int64_t>();
  int64_t distance = 0;
  if (!absl::SimpleAtoi(text, &distance) || distance < 0) {
    return absl::InvalidArgumentError("distance");
  }
  return std::optional<int64_t>(distance);
}

absl::Status SetScale(double scale, ScoreSpec& score) {
  return std::visit(
      [scale](auto& member) -> absl::Status {
        if constexpr (requires { member.scale; }) {
          member.scale = scale;
          return absl::OkStatus();
        }
        return FieldError("--scale", absl::StrCat(scale),
                          "none: the score has no scale");
      },
      score);
}

absl::Status ApplyScalars(const SpecFlags& flags, AttentionSpec& spec) {
  if (flags.scale.has_value()) {
    absl::Status status = SetScale(*flags.scale, spec.score);
    if (!status.ok()) return status;
  }
  if (flags.softcap.has_value()) spec.softcap = flags.softcap;
  if (!flags.temperatures.empty()) spec.temperatures = flags.temperatures;
  if (flags.causal.has_value()) {
    const auto alignment = ParseAlignment(*flags.causal, "--causal");
    if (!alignment.ok()) return alignment.status();
    spec.masks.emplace_back(CausalMask{.alignment = *alignment});
  }
  if (!flags.window.empty()) {
    const auto window = ParseWindow(flags.window);
    if (!window.ok()) return window.status();
    spec.masks.emplace_back(*window);
  }
  if (flags.alibi.has_value()) {
    auto slopes = ParseNumbers(*flags.alibi, "--alibi");
    if (!slopes.ok()) return slopes.status();
    spec.biases.emplace_back(AlibiBias{.slopes = *std::move(slopes)});
  }
  return absl::OkStatus();
}

// Reads each file and appends what `make` makes of its place in `inputs`.
template <typename Stage, typename Make>
absl::Status AppendFiles(const std::vector<std::string>& files,
                         const ReadOptions& options,
                         std::vector<HostTensor>& inputs,
                         std::vector<Stage>* stages, Make make) {
  for (const std::string& file : files) {
    auto tensor = ReadTensor(file, options);
    if (!tensor.ok()) return tensor.status();
    if (stages != nullptr) {
      stages->emplace_back(make(static_cast<uint32_t>(inputs.size())));
    }
    inputs.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

void AddLengthFlags(CLI::App& command, SpecFlags& flags) {
  const struct {
    const char* name;
    std::vector<int64_t>& values;
    const char* help;
  } rows[] = {
      {"--q-lengths", flags.q_lengths, "Valid queries, [B]"},
      {"--kv-lengths", flags.kv_lengths, "Valid keys, [B]"},
      {"--q-offsets", flags.q_offsets,
       "Where sequences begin and the last ends, [B + 1]: q is [rows, Hq, D]"},
      {"--kv-offsets", flags.kv_offsets, "The same for k and v"},
  };
  for (const auto& row : rows) {
    command.add_option(row.name, row.values, row.help)
        ->delimiter(',')
        ->group("Lengths");
  }
}

}  // namespace

void AddVariantFlags(CLI::App& command, SpecFlags& flags) {
  command
      .add_option("--spec", flags.spec_file,
                  "AttentionSpec as protobuf JSON; what flags say is added")
      ->type_name(kFileType)
      ->group(kSpecGroup);
  AddStageFlags(command, flags.stages);
  command
      .add_option("--scale", flags.scale, "Multiplies q.k; default 1/sqrt(d_k)")
      ->type_name(kNumberType)
      ->group(kScoreGroup);
  command.add_option("--softcap", flags.softcap, "c * tanh(logits / c)")
      ->type_name(kNumberType)
      ->group(kScoreGroup);
  command
      .add_option("--temperature", flags.temperatures,
                  "Divides the logits: one, or one for each head")
      ->delimiter(',')
      ->type_name(kNumberType)
      ->group(kScoreGroup);
  AddOptionalValue(command, "--causal", flags.causal, "top_left|bottom_right",
                   "Keys up to the query's own position; where it stands must "
                   "be said if there are not as many queries as keys")
      ->group(kMaskGroup);
  command
      .add_option("--window", flags.window,
                  "Keys within inclusive distances; none is open")
      ->type_name("L,R[,top_left|bottom_right]")
      ->group(kMaskGroup);
  AddOptionalValue(command, "--alibi", flags.alibi, "SLOPE,...",
                   "ALiBi; published slopes, or one for each head")
      ->group(kScoreGroup);
  command.add_option("--bias", flags.bias_files, "Dense bias from a file")
      ->type_name(kFileType)
      ->group(kScoreGroup);
  command
      .add_option("--mask", flags.mask_files,
                  "Dense mask from a file; true = may attend")
      ->type_name(kFileType)
      ->group(kMaskGroup);
  command
      .add_option("--tensor", flags.tensor_files,
                  "Tensor for the --spec file's inputs, in order")
      ->type_name(kFileType)
      ->group(kSpecGroup);
}

void AddSpecFlags(CLI::App& command, SpecFlags& flags) {
  AddVariantFlags(command, flags);
  AddLengthFlags(command, flags);
  command
      .add_option("--output-dtype", flags.output_dtype,
                  "Type of the outputs; default as q")
      ->transform(OneOf(FloatNames()))
      ->group(kSpecGroup);
  command
      .add_option("--kernel", flags.kernel,
                  "Kernel by name; default the plan's choice")
      ->type_name("NAME")
      ->group(kSpecGroup);
}

absl::StatusOr<SpecRequest> ReadSpec(const SpecFlags& flags,
                                     const ReadOptions& options) {
  SpecRequest request;
  request.q_offsets = flags.q_offsets;
  request.kv_offsets = flags.kv_offsets;
  if (!flags.spec_file.empty()) {
    auto spec = ReadSpecFile(flags.spec_file);
    if (!spec.ok()) return spec.status();
    request.spec = *std::move(spec);
  }
  absl::Status status = AppendFiles<BiasSpec>(
      flags.tensor_files, options, request.inputs, nullptr,
      [](uint32_t input) { return DenseBias{.input = input}; });
  if (status.ok()) {
    status =
        ApplyStageFlags(flags.stages, options, request.spec, request.inputs);
  }
  if (status.ok()) status = ApplyScalars(flags, request.spec);
  if (status.ok()) {
    status = AppendFiles(
        flags.bias_files, options, request.inputs, &request.spec.biases,
        [](uint32_t input) { return DenseBias{.input = input}; });
  }
  if (status.ok()) {
    status = AppendFiles(
        flags.mask_files, options, request.inputs, &request.spec.masks,
        [](uint32_t input) { return DenseMask{.input = input}; });
  }
  if (!status.ok()) return status;
  if (!flags.output_dtype.empty()) {
    auto dtype = ParseFloatDType(flags.output_dtype, "--output-dtype");
    if (!dtype.ok()) return dtype.status();
    request.output_dtype = *dtype;
  }
  return request;
}

absl::StatusOr<Alignment> ParseAlignment(const std::string& name,
                                         const std::string& flag) {
  if (name.empty()) return Alignment::kUnspecified;
  if (name == "top_left") return Alignment::kTopLeft;
  if (name == "bottom_right") return Alignment::kBottomRight;
  return FieldError(flag, absl::StrCat("\"", name, "\""),
                    "top_left or bottom_right");
}

absl::StatusOr<WindowMask> ParseWindow(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const absl::Status bad = FieldError(
      "--window", absl::StrCat("\"", text, "\""),
      "L,R or L,R,top_left|bottom_right, L and R integers >= 0 or none");
  if (parts.size() != 2 && parts.size() != 3) return bad;
  const auto left = ParseDistance(parts[0]);
  const auto right = ParseDistance(parts[1]);
  const auto alignment =
      ParseAlignment(parts.size() == 3 ? parts[2] : "", "--window");
  if (!left.ok() || !right.ok() || !alignment.ok()) return bad;
  return WindowMask{.left = *left, .right = *right, .alignment = *alignment};
}

}  // namespace attn
