#include "client/cli/check/case.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/io/file.h"
#include "client/io/json_tensor.h"

namespace attn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kCaseFile[] = "case.json";
constexpr int64_t kMaxCaseBytes = 64 << 20;
// root/family/case
constexpr int kMaxDepth = 3;

absl::Status Bad(const std::string& folder, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(folder, "/", kCaseFile, ": ", what));
}

std::string FamilyOf(const fs::path& folder) {
  return fs::absolute(folder).lexically_normal().parent_path().filename();
}

absl::StatusOr<std::string> Text(const json& document, const char* key) {
  if (!document.contains(key) || !document[key].is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("has no ", key));
  }
  return document[key].get<std::string>();
}

absl::StatusOr<HostTensor> LoadTensor(const std::string& folder,
                                      const std::string& name,
                                      const json& entry) {
  const auto file = entry.is_object() ? Text(entry, "file")
                                      : absl::InvalidArgumentError("no file");
  if (!file.ok() || absl::StrContains(*file, "/")) {
    return Bad(folder, absl::StrCat(name, " names no file of the folder"));
  }
  auto tensor = ReadTensor(absl::StrCat(folder, "/", *file));
  if (!tensor.ok()) return tensor.status();
  const absl::Span<const int64_t> dims = tensor->shape().dims();
  if (entry.value("shape", json()) !=
      json(std::vector<int64_t>(dims.begin(), dims.end()))) {
    return Bad(folder, absl::StrCat(name, " has another shape than ", *file));
  }
  return tensor;
}

absl::Status LoadTensors(const std::string& folder, const json& document,
                         const char* key, TensorMap& tensors) {
  if (!document.contains(key)) return absl::OkStatus();
  for (const auto& [name, entry] : document[key].items()) {
    auto tensor = LoadTensor(folder, name, entry);
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, *std::move(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tolerance> ReadTolerance(const json& document,
                                        const char* precision) {
  const json tolerance =
      document.value("tolerance", json::object()).value(precision, json());
  if (!tolerance.is_object() || !tolerance.contains("rtol") ||
      !tolerance.contains("atol") || !tolerance["rtol"].is_number() ||
      !tolerance["atol"].is_number()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no tolerance.", precision));
  }
  return Tolerance{.rtol = tolerance["rtol"].get<double>(),
                   .atol = tolerance["atol"].get<double>()};
}

// A case that must be refused has no outputs and needs no tolerance.
absl::Status ReadTolerances(const json& document, Case& loaded) {
  if (loaded.outputs.empty()) return absl::OkStatus();
  const auto wide = ReadTolerance(document, "float64");
  if (!wide.ok()) return wide.status();
  const auto narrow = ReadTolerance(document, "float32");
  if (!narrow.ok()) return narrow.status();
  loaded.tolerance64 = *wide;
  loaded.tolerance32 = *narrow;
  return absl::OkStatus();
}

absl::StatusOr<json> ReadDocument(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kCaseFile);
  const auto text = ReadFile(path, kMaxCaseBytes);
  if (!text.ok()) return text.status();
  auto document = ParseJson(*text, path);
  if (!document.ok()) return document.status();
  if (!document->is_object()) return Bad(folder, "not an object");
  for (const char* key : {"params", "inputs", "outputs"}) {
    if (document->contains(key) && (*document)[key].is_null()) {
      document->erase(key);
    }
    if (document->contains(key) && !(*document)[key].is_object()) {
      return Bad(folder, absl::StrCat(key, " is not an object"));
    }
  }
  return document;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindCases(
    const std::string& root, const std::vector<std::string>& families) {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& folder) {
    const std::string family = FamilyOf(folder);
    if (families.empty() ||
        std::find(families.begin(), families.end(), family) != families.end()) {
      folders.push_back(folder.string());
    }
  };
  std::error_code error;
  if (fs::exists(fs::path(root) / kCaseFile, error)) add(root);
  fs::recursive_directory_iterator walk(root, error);
  for (; !error && walk != fs::recursive_directory_iterator();
       walk.increment(error)) {
    if (walk.depth() >= kMaxDepth) walk.disable_recursion_pending();
    if (walk->path().filename() == kCaseFile && walk.depth() > 0) {
      add(walk->path().parent_path());
    }
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat(root, ": ", error.message()));
  }
  if (folders.empty()) {
    return absl::NotFoundError(
        absl::StrCat(root, ": no case", families.empty() ? "" : " of ",
                     absl::StrJoin(families, ", "),
                     "; expected <family>/<case>/", kCaseFile));
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

absl::StatusOr<Case> LoadCase(const std::string& folder) {
  const auto document = ReadDocument(folder);
  if (!document.ok()) return document.status();
  Case loaded;
  for (const auto& [key, field] :
       {std::pair{"name", &loaded.name}, std::pair{"op", &loaded.op}}) {
    auto text = Text(*document, key);
    if (!text.ok()) return Bad(folder, text.status().message());
    *field = *std::move(text);
  }
  loaded.family = document->value("family", FamilyOf(folder));
  loaded.params = document->value("params", json::object());
  absl::Status status = LoadTensors(folder, *document, "inputs", loaded.inputs);
  if (status.ok()) {
    status = LoadTensors(folder, *document, "outputs", loaded.outputs);
  }
  if (!status.ok()) return status;
  status = ReadTolerances(*document, loaded);
  if (!status.ok()) return Bad(folder, status.message());
  return loaded;
}

}  // namespace attn
