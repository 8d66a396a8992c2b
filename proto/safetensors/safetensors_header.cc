#include "proto/safetensors/safetensors_header.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using nlohmann::json;

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kDataAlignment = 8;
// An entry has three levels.
constexpr int kMaxDepth = 4;

constexpr DType kDTypes[] = {DType::kF32, DType::kF16,  DType::kBF16,
                             DType::kF64, DType::kBool, DType::kI8,
                             DType::kI32, DType::kI64};

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors header: ", what));
}

// Strict: a key that comes twice is an error.
absl::StatusOr<json> ParseObject(absl::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string fault;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) fault = "nested too deeply";
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      fault = absl::StrCat("key ", parsed.dump(), " comes twice");
    }
    return fault.empty();
  };
  json document = json::parse(text.begin(), text.end(), watch,
                              /*allow_exceptions=*/false);
  if (!fault.empty()) return Bad(fault);
  if (!document.is_object()) return Bad("not a JSON object");
  return document;
}

// Text for messages, whatever bytes a file has in it.
std::string Show(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

bool ReadIntegers(const json& array, std::vector<int64_t>& values) {
  if (!array.is_array()) return false;
  for (const json& value : array) {
    // Not negative, and below 2^63.
    if (!value.is_number_unsigned()) return false;
    const auto number = value.get<uint64_t>();
    if (number > uint64_t{INT64_MAX}) return false;
    values.push_back(static_cast<int64_t>(number));
  }
  return true;
}

absl::StatusOr<DType> ReadDType(const json& value) {
  for (const DType dtype : kDTypes) {
    if (value.is_string() && value.get<std::string>() == Name(dtype)) {
      return dtype;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", Show(value),
                   " is none of F32, F16, BF16, F64, BOOL, I8, I32 and I64"));
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const std::string& name,
                                           const json& value) {
  if (!value.is_object() || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return absl::InvalidArgumentError("not {dtype, shape, data_offsets}");
  }
  SafetensorsEntry entry;
  entry.name = name;
  const auto dtype = ReadDType(value["dtype"]);
  if (!dtype.ok()) return dtype.status();
  entry.dtype = *dtype;
  std::vector<int64_t> dims;
  std::vector<int64_t> offsets;
  if (!ReadIntegers(value["shape"], dims)) {
    return absl::InvalidArgumentError("shape is no array of extents");
  }
  auto shape = Shape::Create(dims, SizeOf(*dtype), "shape");
  if (!shape.ok()) return shape.status();
  entry.shape = *std::move(shape);
  if (!ReadIntegers(value["data_offsets"], offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1]) {
    return absl::InvalidArgumentError("data_offsets is not [begin, end]");
  }
  entry.offset = offsets[0];
  if (offsets[1] - offsets[0] != entry.byte_count()) {
    return absl::InvalidArgumentError(absl::StrCat(
        offsets[1] - offsets[0], " bytes where ", Name(entry.dtype), " ",
        entry.shape.ToString(), " has ", entry.byte_count()));
  }
  return entry;
}

absl::Status ReadMetadata(const json& value,
                          std::map<std::string, std::string>& metadata) {
  if (!value.is_object()) return Bad("__metadata__ is no object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Bad("__metadata__ holds more than strings");
    metadata[key] = text.get<std::string>();
  }
  return absl::OkStatus();
}

// The tensors cover the data from end to end, each byte once.
absl::Status CheckCover(const std::vector<SafetensorsEntry>& entries,
                        int64_t data_bytes) {
  int64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != end) {
      return Bad(absl::StrCat("tensor ", Show(entry.name), " begins at ",
                              entry.offset, ", expected ", end));
    }
    end += entry.byte_count();
    if (end > data_bytes) break;
  }
  if (end == data_bytes) return absl::OkStatus();
  return Bad(absl::StrCat("tensors of another size than the ", data_bytes,
                          " bytes of data in the file"));
}

json ToJson(const SafetensorsHeader& header) {
  json document = json::object();
  if (!header.metadata.empty()) document[kMetadataKey] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    document[entry.name] = {
        {"dtype", std::string(Name(entry.dtype))},
        {"shape", std::vector<int64_t>(entry.shape.dims().begin(),
                                       entry.shape.dims().end())},
        {"data_offsets", {entry.offset, entry.offset + entry.byte_count()}}};
  }
  return document;
}

}  // namespace

int64_t SafetensorsEntry::byte_count() const {
  return shape.element_count() * static_cast<int64_t>(SizeOf(dtype));
}

absl::StatusOr<int64_t> SafetensorsHeaderLength(absl::string_view prefix,
                                                int64_t file_bytes,
                                                int64_t max_header_bytes) {
  if (prefix.size() < static_cast<size_t>(kSafetensorsPrefixBytes)) {
    return Bad("the file is shorter than 8 bytes");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < static_cast<size_t>(kSafetensorsPrefixBytes); ++i) {
    length |= uint64_t{static_cast<unsigned char>(prefix[i])} << (8 * i);
  }
  const int64_t most =
      std::min(max_header_bytes, file_bytes - kSafetensorsPrefixBytes);
  if (most < 0 || length > static_cast<uint64_t>(most)) {
    return Bad(absl::StrCat(length, " bytes long, expected at most ", most));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes) {
  const auto document = ParseObject(text);
  if (!document.ok()) return document.status();
  SafetensorsHeader header;
  for (const auto& [name, value] : document->items()) {
    if (name == kMetadataKey) {
      absl::Status status = ReadMetadata(value, header.metadata);
      if (!status.ok()) return status;
      continue;
    }
    auto entry = ReadEntry(name, value);
    if (!entry.ok()) {
      return Bad(
          absl::StrCat("tensor ", Show(name), ": ", entry.status().message()));
    }
    header.entries.push_back(*std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              // One without elements goes before the one that begins there.
              return std::pair(a.offset, a.byte_count()) <
                     std::pair(b.offset, b.byte_count());
            });
  absl::Status covered = CheckCover(header.entries, data_bytes);
  if (!covered.ok()) return covered;
  return header;
}

std::string WriteSafetensorsHeader(SafetensorsHeader& header) {
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              // The widest first: then each begins at a multiple of its size.
              const size_t a_size = SizeOf(a.dtype);
              const size_t b_size = SizeOf(b.dtype);
              return std::tie(b_size, a.name) < std::tie(a_size, b.name);
            });
  int64_t offset = 0;
  for (SafetensorsEntry& entry : header.entries) {
    entry.offset = offset;
    offset += entry.byte_count();
  }
  std::string text =
      ToJson(header).dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize(
      (text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment,
      ' ');
  std::string bytes;
  for (size_t i = 0; i < static_cast<size_t>(kSafetensorsPrefixBytes); ++i) {
    bytes.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  }
  return bytes + text;
}

}  // namespace attn
