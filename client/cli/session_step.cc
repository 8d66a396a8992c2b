#include "client/cli/session_step.h"

#include <initializer_list>
#include <random>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/choices.h"
#include "client/cli/session_report.h"
#include "client/io/tensor_file.h"
#include "client/library/float_dtype.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kStepGroup[] = "Step";
constexpr char kDrawGroup[] = "Input";

// One of q, k and v: its own file, and where its rows go.
struct RowFile {
  const char* name;
  std::string InputFlags::*file;
  HostTensor TokenRows::*rows;
};

constexpr RowFile kRowFiles[] = {
    {"q", &InputFlags::q, &TokenRows::q},
    {"k", &InputFlags::k, &TokenRows::k},
    {"v", &InputFlags::v, &TokenRows::v},
};

absl::StatusOr<HostTensor> ReadRows(const StepFlags& flags,
                                    const RowFile& source, int layer,
                                    TensorMap& tensors) {
  const std::string& file = flags.input.*source.file;
  const bool several = flags.layers.size() > 1;
  if (!file.empty()) {
    if (!several) return ReadTensor(file, flags.input.read_options());
    return FieldError(absl::StrCat("--", source.name), file,
                      "--input, which has tensors of several layers");
  }
  const std::string name = StepTensorName(source.name, layer, several);
  const auto found = tensors.find(name);
  if (found != tensors.end()) return std::move(found->second);
  return absl::InvalidArgumentError(
      !flags.input.input.empty()
          ? absl::StrCat(flags.input.input, ": has no ", name)
          : absl::StrCat("no ", name, ": give --", source.name,
                         " FILE, --input FILE with ", name,
                         " in it, or --random N"));
}

// Of --dtype; `otherwise` if there is none.
absl::StatusOr<DType> WantedDType(const StepFlags& flags, DType otherwise) {
  if (flags.input.dtype.empty()) return otherwise;
  return ParseFloatDType(flags.input.dtype, "--dtype");
}

// Uniform in [-1, 1).
double DrawValue(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-52 - 1;
}

absl::StatusOr<HostTensor> DrawRows(std::initializer_list<int64_t> dims,
                                    DType dtype, std::mt19937_64& random) {
  // Room for the values as they are drawn, too.
  const auto shape = Shape::Create(dims, sizeof(double), "--random");
  if (!shape.ok()) return shape.status();
  HostTensor rows(DType::kF32, *shape);
  for (float& value : rows.values<float>()) {
    value = static_cast<float>(DrawValue(random));
  }
  return dtype == DType::kF32 ? std::move(rows) : rows.To(dtype);
}

// Where the rows come from.
void AddRowFlags(CLI::App& command, StepFlags& flags) {
  CLI::Option* random =
      command
          .add_option("--random", flags.random,
                      "Draw N tokens in place of files: uniform in [-1, 1)")
          ->type_name("N")
          ->check(CLI::PositiveNumber.description(""))
          ->group(kDrawGroup);
  const struct {
    const char* name;
    std::string& path;
    const char* help;
  } files[] = {
      {"--input", flags.input.input,
       "One .npz, .safetensors or .json file with q, k and v"},
      {"--q", flags.input.q,
       "Queries, [1, heads, tokens, dim]: .npy or a file of one tensor"},
      {"--k", flags.input.k, "Keys"},
      {"--v", flags.input.v, "Values"},
  };
  for (const auto& file : files) {
    command.add_option(file.name, file.path, file.help)
        ->type_name(kFileType)
        ->excludes(random)
        ->group(kDrawGroup);
  }
  command
      .add_option("--seed", flags.seed,
                  "Of --random; other positions draw others")
      ->needs(random)
      ->capture_default_str()
      ->group(kDrawGroup);
  command
      .add_option("--dtype", flags.input.dtype,
                  "Convert q, k, v before sending")
      ->transform(OneOf(FloatNames()))
      ->group(kDrawGroup);
  command
      .add_flag("--bf16-as-u2", flags.input.u2_is_bf16,
                "uint16 arrays in files hold the bits of bfloat16")
      ->group(kDrawGroup);
}

}  // namespace

void AddStepFlags(CLI::App& command, StepFlags& flags) {
  command
      .add_option("--layers", flags.layers,
                  "Layers that the tokens are of; default 0")
      ->delimiter(',')
      ->group(kStepGroup);
  command
      .add_option("--epoch", flags.epoch,
                  "The session's epoch; by default the server is asked")
      ->group(kStepGroup);
  command
      .add_option("--step", flags.step,
                  "Number of the step; by default the server is asked")
      ->group(kStepGroup);
  command
      .add_option("--position", flags.position,
                  "Tokens that the layers have; by default the server is asked")
      ->group(kStepGroup);
  AddRowFlags(command, flags);
  AddCallInfoFlags(command, flags.info);
  command
      .add_option("--out", flags.out,
                  "Write the output: .npy, .npz, .safetensors or .json")
      ->type_name(kFileType)
      ->group("Output");
}

bool NeedsSession(const StepFlags& flags) {
  return flags.random > 0 || !flags.epoch.has_value() ||
         !flags.step.has_value() || !flags.position.has_value();
}

absl::StatusOr<std::vector<TokenRows>> ReadTokenRows(const StepFlags& flags) {
  TensorMap tensors;
  if (!flags.input.input.empty()) {
    auto read = ReadTensors(flags.input.input, flags.input.read_options());
    if (!read.ok()) return read.status();
    tensors = *std::move(read);
  }
  std::vector<TokenRows> rows;
  for (const int layer : flags.layers) {
    TokenRows& layer_rows = rows.emplace_back();
    for (const RowFile& source : kRowFiles) {
      auto tensor = ReadRows(flags, source, layer, tensors);
      if (!tensor.ok()) return tensor.status();
      const auto dtype = WantedDType(flags, tensor->dtype());
      if (!dtype.ok()) return dtype.status();
      layer_rows.*source.rows =
          tensor->dtype() == *dtype ? *std::move(tensor) : tensor->To(*dtype);
    }
  }
  return rows;
}

absl::StatusOr<std::vector<TokenRows>> DrawTokenRows(
    const StepFlags& flags, const v1::SessionInfo& session, int64_t position) {
  const auto dtype = WantedDType(flags, DType::kF32);
  if (!dtype.ok()) return dtype.status();
  const auto place = static_cast<uint64_t>(position);
  std::seed_seq seeds{flags.seed, flags.seed >> 32, place, place >> 32};
  std::mt19937_64 random(seeds);
  const struct {
    HostTensor TokenRows::*rows;
    int64_t heads;
    int64_t dim;
  } parts[] = {{&TokenRows::q, session.q_heads(), session.q_dim()},
               {&TokenRows::k, session.kv_heads(), session.k_dim()},
               {&TokenRows::v, session.kv_heads(), session.v_dim()}};
  std::vector<TokenRows> rows(flags.layers.size());
  for (TokenRows& layer_rows : rows) {
    for (const auto& part : parts) {
      auto drawn =
          DrawRows({1, part.heads, flags.random, part.dim}, *dtype, random);
      if (!drawn.ok()) return drawn.status();
      layer_rows.*part.rows = *std::move(drawn);
    }
  }
  return rows;
}

absl::StatusOr<int64_t> PositionOf(const StepFlags& flags,
                                   const v1::SessionInfo& session) {
  if (flags.position.has_value()) return *flags.position;
  const int layer = flags.layers.front();
  if (layer < 0 || layer >= session.lengths_size()) {
    return FieldError("--layers", absl::StrCat(layer),
                      absl::StrCat("one of the session's ",
                                   session.lengths_size(), " layers"));
  }
  return session.lengths(layer);
}

StepMessage MakeStep(const StepFlags& flags, const std::string& id,
                     const v1::SessionInfo& session, int64_t position,
                     const std::vector<TokenRows>& rows) {
  StepMessage message;
  message.session_id = id;
  message.epoch = flags.epoch.value_or(session.epoch());
  message.step = flags.step.value_or(session.next_step());
  message.position = position;
  for (size_t i = 0; i < rows.size(); ++i) {
    message.layers.push_back({.layer = flags.layers[i],
                              .q = rows[i].q.view(),
                              .k = rows[i].k.view(),
                              .v = rows[i].v.view()});
  }
  CallMessage info;
  ApplyCallInfo(flags.info, info);
  message.request_id = info.request_id;
  message.priority = info.priority;
  return message;
}

}  // namespace attn
