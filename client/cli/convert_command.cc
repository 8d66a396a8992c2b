#include "client/cli/convert_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/choices.h"
#include "client/cli/spec_flags.h"
#include "client/io/replacement_file.h"
#include "client/io/tensor_file.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

constexpr char kConvertFooter[] = R"(
The kinds of files are told by the ends of their names: .npy, .npz,
.safetensors, .json. Every bit is kept, but for what JSON cannot say of a NaN:
its sign and payload. A .npy file has no names: its tensor gets the file's.
The metadata of a .safetensors file are left out.

Examples:
  attn convert model.safetensors model.npz
  attn convert qkv.npz queries.npy --tensor q
  attn convert queries.npy queries.json
  attn convert qkv.npz half.safetensors --tensor q,k,v --dtype bf16
  attn convert old.npz new.npz --force --json)";

struct ConvertFlags {
  std::string in;
  std::string out;
  std::vector<std::string> tensors;
  std::string dtype;
  bool u2_is_bf16 = false;
  bool force = false;
};

std::string NamesOf(const TensorMap& tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out,
                    entry.first.empty() ? "(without a name)" : entry.first);
  });
}

// Leaves those that --tensor names; all without it.
absl::Status Select(const ConvertFlags& flags, TensorMap& tensors) {
  if (flags.tensors.empty()) return absl::OkStatus();
  TensorMap chosen;
  for (const std::string& name : flags.tensors) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      return FieldError("--tensor",
                        chosen.contains(name)
                            ? absl::StrCat("\"", name, "\" twice")
                            : absl::StrCat("\"", name, "\""),
                        absl::StrCat("of ", flags.in, ": ", NamesOf(tensors)));
    }
    chosen.emplace(name, std::move(found->second));
    tensors.erase(found);
  }
  tensors = std::move(chosen);
  return absl::OkStatus();
}

// A .npy file's tensor takes the file's name.
void NameAfterFile(const std::string& path, TensorMap& tensors) {
  auto unnamed = tensors.extract("");
  if (unnamed.empty()) return;
  unnamed.key() = std::filesystem::path(path).stem().string();
  tensors.insert(std::move(unnamed));
}

// Only floats: integers and masks are what they are.
absl::Status Convert(const std::string& name, TensorMap& tensors) {
  if (name.empty()) return absl::OkStatus();
  const auto dtype = ParseFloatDType(name, "--dtype");
  if (!dtype.ok()) return dtype.status();
  for (auto& [key, tensor] : tensors) {
    if (IsFloat(tensor.dtype()) && tensor.dtype() != *dtype) {
      tensor = tensor.To(*dtype);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const ConvertFlags& flags, const TensorMap& tensors) {
  if (!absl::EndsWith(flags.out, ".npy") || tensors.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flags.out, ": a .npy file holds one tensor, and ", flags.in, " has ",
      tensors.size(), "; choose one with --tensor: ", NamesOf(tensors)));
}

absl::StatusOr<TensorMap> ConvertFile(const ConvertFlags& flags) {
  // Before anything large is read.
  auto file = ReplacementFile::Create(
      flags.out, flags.force ? ReplacementFile::Existing::kReplace
                             : ReplacementFile::Existing::kKeep);
  if (!file.ok()) return file.status();
  auto tensors = ReadTensors(flags.in, {.u2_is_bf16 = flags.u2_is_bf16});
  if (!tensors.ok()) return tensors.status();
  NameAfterFile(flags.in, *tensors);
  absl::Status status = Select(flags, *tensors);
  if (status.ok()) status = CheckFits(flags, *tensors);
  if (status.ok()) status = Convert(flags.dtype, *tensors);
  if (!status.ok()) return status;
  status = WriteTensors(file->path(), *tensors);
  if (!status.ok()) return file->Blame(status);
  status = file->Commit();
  if (!status.ok()) return status;
  return tensors;
}

nlohmann::json ConvertToJson(const ConvertFlags& flags,
                             const TensorMap& tensors) {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    const absl::Span<const int64_t> dims = tensor.shape().dims();
    list[name] = {{"dtype", std::string(Name(tensor.dtype()))},
                  {"shape", std::vector<int64_t>(dims.begin(), dims.end())}};
  }
  return {{"file", flags.out},
          {"bytes", std::filesystem::file_size(flags.out)},
          {"tensors", list}};
}

ExitCode RunConvert(const ConvertFlags& flags, bool json) {
  const auto tensors = ConvertFile(flags);
  if (!tensors.ok()) return ReportUsageError(tensors.status());
  if (json) {
    // A path need not be UTF-8.
    std::puts(ConvertToJson(flags, *tensors)
                  .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                  .c_str());
    return ExitCode::kOk;
  }
  for (const auto& [name, tensor] : *tensors) {
    std::printf("%s  %s %s\n", name.c_str(),
                std::string(Name(tensor.dtype())).c_str(),
                tensor.shape().ToString().c_str());
  }
  std::printf("%s: %zu tensor%s\n", flags.out.c_str(), tensors->size(),
              tensors->size() == 1 ? "" : "s");
  return ExitCode::kOk;
}

}  // namespace

void AddConvertCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command = app.add_subcommand(
      "convert", "Convert tensor files: npy, npz, safetensors, JSON");
  command->footer(kConvertFooter);
  auto flags = std::make_shared<ConvertFlags>();
  command->add_option("in", flags->in, "File to read")
      ->required()
      ->type_name(kFileType);
  command->add_option("out", flags->out, "File to write")
      ->required()
      ->type_name(kFileType);
  command
      ->add_option("--tensor", flags->tensors,
                   "Tensors to take; all unless named")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->add_option("--dtype", flags->dtype, "Convert tensors of floats")
      ->transform(OneOf(FloatNames()));
  command->add_flag("--bf16-as-u2", flags->u2_is_bf16,
                    "uint16 arrays in files hold the bits of bfloat16");
  command->add_flag("--force", flags->force, "Replace a file that is there");
  command->callback([flags, &options] {
    options.run = [flags, &options] {
      return RunConvert(*flags, options.json);
    };
  });
}

}  // namespace attn
