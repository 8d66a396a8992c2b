#include "engine/programs/table_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/programs/token.h"
#include "engine/programs/vocabulary.h"
#include "engine/tile/convert.h"

namespace attn {
namespace {

// Elements at distances from `data`, in elements; -1: NaN.
template <typename Stored, typename T>
void GatherStored(const std::byte* data, const int64_t* offsets, int64_t count,
                  T* out) {
  for (int64_t i = 0; i < count; ++i) {
    if (offsets[i] < 0) {
      out[i] = std::numeric_limits<T>::quiet_NaN();
      continue;
    }
    Stored stored{};
    std::memcpy(&stored,
                data + offsets[i] * static_cast<int64_t>(sizeof(stored)),
                sizeof(stored));
    out[i] = static_cast<T>(stored);
  }
}

template <typename T>
void GatherConverted(const TensorView& tensor, const int64_t* offsets,
                     int64_t count, T* out) {
  const auto bytes = static_cast<int64_t>(SizeOf(tensor.dtype));
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::numeric_limits<T>::quiet_NaN();
    if (offsets[i] < 0) continue;
    LoadElements(tensor.data + offsets[i] * bytes, tensor.dtype, 1, 1, out + i);
  }
}

// Rounded down; -1 if that is no index below `extent`, as for NaN.
template <typename T>
int64_t IndexOf(T value, int64_t extent) {
  if (!(value >= 0 && value < static_cast<T>(extent))) return -1;
  const auto index = static_cast<int64_t>(value);
  // `extent` may have been rounded up.
  return index < extent ? index : -1;
}

bool IsName(const std::string& name) {
  const Token token = NextToken(name, 0);
  return token.kind == TokenKind::kName && token.text.size() == name.size();
}

absl::Status CheckTable(const ProgramSpec& spec, size_t index,
                        const Problem& problem, const std::string& field) {
  const ProgramTable& table = spec.tables[index];
  const std::string quoted =
      absl::StrCat("\"", absl::CHexEscape(table.name), "\"");
  if (!IsName(table.name) || IsReserved(table.name)) {
    return FieldError(absl::StrCat(field, ".name"), quoted,
                      "letters, digits and _ that mean nothing else");
  }
  for (size_t i = 0; i < index; ++i) {
    if (spec.tables[i].name == table.name) {
      return FieldError(absl::StrCat(field, ".name"), quoted,
                        absl::StrCat("another name than tables[", i, "]"));
    }
  }
  const std::string input = absl::StrCat(field, ".tensor.input");
  if (table.input >= problem.inputs.size()) {
    return FieldError(
        input, absl::StrCat(table.input),
        absl::StrCat("the index of one of ", problem.inputs.size(), " inputs"));
  }
  const TensorSignature& tensor = problem.inputs[table.input];
  if (tensor.shape.rank() != 1 && tensor.shape.rank() != 2) {
    return FieldError(input,
                      absl::StrCat("inputs[", table.input, "] of shape ",
                                   tensor.shape.ToString()),
                      "rank 1 or 2");
  }
  if (tensor.dtype != DType::kI8) return absl::OkStatus();
  return FieldError(input, absl::StrCat("inputs[", table.input, "] of type I8"),
                    "F32, F16, BF16, F64, I32, I64 or BOOL");
}

}  // namespace

absl::Status CheckProgramTables(const ProgramSpec& spec, const Problem& problem,
                                absl::string_view field) {
  if (spec.tables.size() > kMaxProgramTables) {
    return FieldError(absl::StrCat(field, ".tables"),
                      absl::StrCat(spec.tables.size(), " tables"),
                      absl::StrCat("at most ", kMaxProgramTables));
  }
  for (size_t i = 0; i < spec.tables.size(); ++i) {
    absl::Status status =
        CheckTable(spec, i, problem, absl::StrCat(field, ".tables[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename T>
void TableReader::Gather(const T* const* indices, int64_t count, T* out) const {
  constexpr int64_t kAtOnce = 128;
  int64_t offsets[kAtOnce];
  for (int64_t done = 0; done < count; done += kAtOnce) {
    const int64_t n = std::min(kAtOnce, count - done);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = IndexOf(indices[0][done + i], tensor_->shape[0]);
      const int64_t column =
          rank() == 1 ? 0 : IndexOf(indices[1][done + i], tensor_->shape[1]);
      offsets[i] = row < 0 || column < 0
                       ? -1
                       : row * row_stride_ + column * column_stride_;
    }
    GatherOffsets(offsets, n, out + done);
  }
}

template void TableReader::Gather(const float* const*, int64_t, float*) const;
template void TableReader::Gather(const double* const*, int64_t, double*) const;

template <typename T>
void TableReader::GatherOffsets(const int64_t* offsets, int64_t count,
                                T* out) const {
  const std::byte* data = tensor_->data;
  switch (tensor_->dtype) {
    case DType::kF32:
      return GatherStored<float>(data, offsets, count, out);
    case DType::kI32:
      return GatherStored<int32_t>(data, offsets, count, out);
    case DType::kI64:
      return GatherStored<int64_t>(data, offsets, count, out);
    case DType::kBool:
    case DType::kI8:
      return GatherStored<uint8_t>(data, offsets, count, out);
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return GatherConverted(*tensor_, offsets, count, out);
  }
}

int64_t TableReader::FlatIndex(double row, double column) const {
  const int64_t i = IndexOf(row, tensor_->shape[0]);
  if (rank() == 1 || i < 0) return i;
  const int64_t j = IndexOf(column, tensor_->shape[1]);
  return j < 0 ? -1 : i * tensor_->shape[1] + j;
}

}  // namespace attn
