#include "client/io/json_tensor.h"

#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

using nlohmann::json;

// Deeper documents are not ours.
constexpr int kMaxDepth = 32;

constexpr DType kDTypes[] = {DType::kF32, DType::kF16,  DType::kBF16,
                             DType::kF64, DType::kBool, DType::kI8,
                             DType::kI32, DType::kI64};

absl::StatusOr<DType> ReadDType(const json& tensor) {
  if (!tensor.contains("dtype")) return DType::kF32;
  const json& name = tensor["dtype"];
  for (const DType dtype : kDTypes) {
    if (name.is_string() && name.get<std::string>() == Name(dtype)) {
      return dtype;
    }
  }
  return FieldError("dtype", name.dump(),
                    "F32, F16, BF16, F64, BOOL, I8, I32 or I64");
}

absl::StatusOr<Shape> ReadShape(const json& tensor, DType dtype) {
  const json& shape = tensor["shape"];
  std::vector<int64_t> dims;
  if (!shape.is_array()) {
    return FieldError("shape", shape.dump(), "an array of integers");
  }
  for (const json& extent : shape) {
    if (!extent.is_number_integer() || extent.get<double>() > 1e18) {
      return FieldError("shape", shape.dump(), "an array of integers");
    }
    dims.push_back(extent.get<int64_t>());
  }
  return Shape::Create(dims, SizeOf(dtype), "shape");
}

// Appends the elements of flat or nested arrays.
absl::Status Flatten(const json& data, std::vector<const json*>& elements,
                     int depth) {
  if (!data.is_array()) {
    elements.push_back(&data);
    return absl::OkStatus();
  }
  if (depth == 0) return FieldError("data", "deep nesting", "a flat array");
  for (const json& element : data) {
    absl::Status status = Flatten(element, elements, depth - 1);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool IsTensor(const json& value) {
  return value.is_object() && value.contains("data") && value.contains("shape");
}

// Whether a double holds `value` of an integer type.
bool Fits(DType dtype, double value) {
  const auto within = [value](double low, double high) {
    return value == std::floor(value) && value >= low && value <= high;
  };
  switch (dtype) {
    case DType::kI8:
      return within(-128, 127);
    case DType::kI32:
      return within(std::numeric_limits<int32_t>::min(),
                    std::numeric_limits<int32_t>::max());
    case DType::kI64:
      return within(-9007199254740992.0, 9007199254740992.0);
    case DType::kBool:
      return value == 0 || value == 1;
    default:
      return true;
  }
}

absl::Status SetElement(const json& element, int64_t index,
                        HostTensor& tensor) {
  const auto bad = [&] {
    return FieldError("data", element.dump(),
                      absl::StrCat("a value of ", Name(tensor.dtype())));
  };
  // A double does not hold every one of them.
  if (tensor.dtype() == DType::kI64 && element.is_number_integer()) {
    if (element.is_number_unsigned() &&
        element.get<uint64_t>() >
            uint64_t{std::numeric_limits<int64_t>::max()}) {
      return bad();
    }
    tensor.values<int64_t>()[static_cast<size_t>(index)] =
        element.get<int64_t>();
    return absl::OkStatus();
  }
  const auto value = NumberFromJson(element);
  if (!value.ok()) return value.status();
  if (!Fits(tensor.dtype(), *value)) return bad();
  tensor.Set(index, *value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> NumberFromJson(const json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1.0 : 0.0;
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  return FieldError("data", json.is_structured() ? "an object" : json.dump(),
                    "a number, \"inf\", \"-inf\" or \"nan\"");
}

json NumberToJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

absl::StatusOr<HostTensor> TensorFromJson(const json& json) {
  if (!IsTensor(json)) {
    return FieldError("tensor", json.type_name(),
                      "{\"dtype\", \"shape\", \"data\"}");
  }
  const auto dtype = ReadDType(json);
  if (!dtype.ok()) return dtype.status();
  const auto shape = ReadShape(json, *dtype);
  if (!shape.ok()) return shape.status();
  std::vector<const nlohmann::json*> elements;
  absl::Status status = Flatten(json["data"], elements, kMaxRank);
  if (!status.ok()) return status;
  if (static_cast<int64_t>(elements.size()) != shape->element_count()) {
    return FieldError(
        "data", absl::StrCat(elements.size(), " elements"),
        absl::StrCat(shape->element_count(), " for shape ", shape->ToString()));
  }
  HostTensor tensor(*dtype, *shape);
  for (size_t i = 0; i < elements.size(); ++i) {
    status = SetElement(*elements[i], static_cast<int64_t>(i), tensor);
    if (!status.ok()) return status;
  }
  return tensor;
}

json TensorToJson(const HostTensor& tensor) {
  const bool integral = !IsFloat(tensor.dtype());
  json data = json::array();
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (tensor.dtype() == DType::kI64) {
      data.push_back(tensor.values<int64_t>()[static_cast<size_t>(i)]);
      continue;
    }
    const double value = tensor.At(i);
    if (tensor.dtype() == DType::kBool) {
      data.push_back(value != 0);
    } else if (integral) {
      data.push_back(static_cast<int64_t>(value));
    } else {
      data.push_back(NumberToJson(value));
    }
  }
  const absl::Span<const int64_t> dims = tensor.shape().dims();
  return {{"dtype", std::string(Name(tensor.dtype()))},
          {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
          {"data", std::move(data)}};
}

absl::StatusOr<json> ParseJson(const std::string& text,
                               const std::string& name) {
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
  json document = json::parse(text, watch, /*allow_exceptions=*/false);
  if (fault.empty() && document.is_discarded()) fault = "not valid JSON";
  if (fault.empty()) return document;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", fault));
}

absl::StatusOr<TensorMap> ParseJsonTensors(const std::string& text,
                                           const std::string& name,
                                           const ReadOptions& options) {
  // A number takes two characters or more, and eight bytes in memory.
  if (text.size() * 4 > static_cast<uint64_t>(options.max_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", text.size(), " bytes are too many"));
  }
  const auto document = ParseJson(text, name);
  if (!document.ok()) return document.status();
  TensorMap tensors;
  const auto add = [&](const std::string& key, const json& value) {
    auto tensor = TensorFromJson(value);
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", key.empty() ? "" : absl::StrCat(key, ": "),
                       tensor.status().message()));
    }
    tensors.emplace(key, *std::move(tensor));
    return absl::OkStatus();
  };
  if (IsTensor(*document) || !document->is_object()) {
    absl::Status status = add("", *document);
    if (!status.ok()) return status;
    return tensors;
  }
  for (const auto& [key, value] : document->items()) {
    if (!IsTensor(value)) continue;
    absl::Status status = add(key, value);
    if (!status.ok()) return status;
  }
  return tensors;
}

}  // namespace attn
