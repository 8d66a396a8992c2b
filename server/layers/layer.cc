#include "server/layers/layer.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr size_t kMaxNameLength = 128;

// Memory beside elements and names: generous, so that it is a bound.
constexpr int64_t kLayerCharge = 1024;
constexpr int64_t kTensorCharge = 256;

bool HasNameCharacters(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", name.substr(0, kMaxNameLength), "\"");
}

absl::Status CheckBools(const StoredTensor& tensor, absl::string_view field) {
  if (tensor.dtype != DType::kBool) return absl::OkStatus();
  const bool good = std::all_of(
      tensor.data.data(), tensor.data.data() + tensor.data.size(),
      [](std::byte byte) { return std::to_integer<int>(byte) <= 1; });
  if (good) return absl::OkStatus();
  return FieldError(absl::StrCat(field, ".tensor.data"), "another byte",
                    "0 (false) or 1 (true) in a BOOL tensor");
}

}  // namespace

int64_t Layer::charge() const {
  int64_t sum = bytes + kLayerCharge + static_cast<int64_t>(name.size());
  for (const StoredTensor& tensor : tensors) {
    sum += kTensorCharge + static_cast<int64_t>(tensor.name.size());
  }
  return sum;
}

const StoredTensor* Layer::Find(absl::string_view tensor) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), tensor,
      [](const StoredTensor& a, absl::string_view b) { return a.name < b; });
  return found != tensors.end() && found->name == tensor ? &*found : nullptr;
}

absl::Status CheckLayerName(absl::string_view name) {
  if (HasNameCharacters(name) && name[0] != '.') return absl::OkStatus();
  return FieldError("name", Quoted(name),
                    "1 to 128 characters of A-Z, a-z, 0-9, '.', '_' and '-', "
                    "the first not '.'");
}

absl::Status CheckLayerTensors(const std::vector<StoredTensor>& tensors) {
  if (tensors.empty() || tensors.size() > kMaxLayerTensors) {
    return FieldError("tensors", absl::StrCat(tensors.size(), " tensors"),
                      absl::StrCat("1 to ", kMaxLayerTensors));
  }
  std::set<absl::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = tensors[i];
    const std::string field = absl::StrCat("tensors[", i, "]");
    // The file's own entry has that name.
    if (!HasNameCharacters(tensor.name) || tensor.name == "__metadata__") {
      return FieldError(
          absl::StrCat(field, ".name"), Quoted(tensor.name),
          "1 to 128 characters of A-Z, a-z, 0-9, '.', '_' and '-', but not "
          "__metadata__");
    }
    if (!names.insert(tensor.name).second) {
      return FieldError(absl::StrCat(field, ".name"),
                        absl::StrCat("a second ", Quoted(tensor.name)),
                        "a name of its own");
    }
    absl::Status status = CheckBools(tensor, field);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attn
