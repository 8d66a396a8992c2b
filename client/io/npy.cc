#include "client/io/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/io/npy_header.h"

namespace attn {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
// Magic, two bytes of version.
constexpr size_t kPreludeBytes = 8;
// numpy's own bound on headers that it reads without being told to trust them.
constexpr size_t kMaxHeaderBytes = 10000;
// Elements begin at a multiple of this.
constexpr size_t kDataAlignment = 64;

struct DescrRow {
  const char* descr;
  DType dtype;
};

// The first of a dtype is what is written.
constexpr DescrRow kDescrs[] = {
    {"<f4", DType::kF32},  {"<f8", DType::kF64},  {"<f2", DType::kF16},
    {"<V2", DType::kBF16}, {"|V2", DType::kBF16}, {"V2", DType::kBF16},
    {"|b1", DType::kBool}, {"?", DType::kBool},   {"|i1", DType::kI8},
    {"<i1", DType::kI8},   {"<i4", DType::kI32},  {"<i8", DType::kI64},
};

absl::StatusOr<DType> DTypeOfDescr(const std::string& descr,
                                   const ReadOptions& options) {
  if (descr == "<u2" && options.u2_is_bf16) return DType::kBF16;
  for (const DescrRow& row : kDescrs) {
    if (descr == row.descr) return row.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "element type '", absl::CHexEscape(descr),
      "' is not read; expected <f2, <f4, <f8, <i4, <i8, |i1, |b1 or <V2",
      descr == "<u2" ? " (<u2 only where it is said to hold bfloat16)"
                     : "; in numpy a.astype('<f4') converts it"));
}

const char* DescrOf(DType dtype) {
  for (const DescrRow& row : kDescrs) {
    if (dtype == row.dtype) return row.descr;
  }
  return "";
}

// Splits a file into its header's text and its elements.
absl::Status Split(absl::string_view bytes, absl::string_view& header,
                   absl::string_view& elements) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(what);
  };
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return bad("not a .npy file, as numpy.save makes them");
  }
  if (bytes.size() < kPreludeBytes) return bad("ends within its header");
  const int version = static_cast<unsigned char>(bytes[kMagic.size()]);
  if (version < 1 || version > 3) {
    return bad(absl::StrCat("version ", version, " is not known"));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < kPreludeBytes + length_bytes) {
    return bad("ends within its header");
  }
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= size_t{static_cast<unsigned char>(bytes[kPreludeBytes + i])}
              << (8 * i);
  }
  const size_t start = kPreludeBytes + length_bytes;
  if (length > kMaxHeaderBytes) {
    return bad(absl::StrCat("header of ", length, " bytes; at most ",
                            kMaxHeaderBytes, " are read"));
  }
  if (length > bytes.size() - start) return bad("ends within its header");
  header = bytes.substr(start, length);
  elements = bytes.substr(start + length);
  return absl::OkStatus();
}

HostTensor Load(DType dtype, const Shape& shape, bool fortran_order,
                absl::string_view elements) {
  TensorView view = TensorView::Dense(elements.data(), dtype, shape);
  if (fortran_order) {
    int64_t stride = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      view.strides[static_cast<size_t>(axis)] = stride;
      stride *= shape[axis];
    }
  }
  return HostTensor::Copy(view);
}

absl::StatusOr<HostTensor> Parse(absl::string_view bytes,
                                 const ReadOptions& options) {
  absl::string_view text;
  absl::string_view elements;
  absl::Status status = Split(bytes, text, elements);
  if (!status.ok()) return status;
  const auto header = ParseNpyHeader(text);
  if (!header.ok()) return header.status();
  const auto dtype = DTypeOfDescr(header->descr, options);
  if (!dtype.ok()) return dtype.status();
  const auto shape = Shape::Create(header->shape, SizeOf(*dtype), "shape");
  if (!shape.ok()) return shape.status();
  const size_t expected =
      static_cast<size_t>(shape->element_count()) * SizeOf(*dtype);
  if (elements.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        elements.size(), " bytes of elements; shape ", shape->ToString(),
        " needs ", expected,
        elements.size() < expected ? ": the file is cut short" : ""));
  }
  HostTensor tensor = Load(*dtype, *shape, header->fortran_order, elements);
  const auto* data = reinterpret_cast<const unsigned char*>(tensor.data());
  if (*dtype == DType::kBool &&
      std::any_of(data, data + tensor.byte_count(),
                  [](unsigned char byte) { return byte > 1; })) {
    return absl::InvalidArgumentError("a bool that is neither 0 nor 1");
  }
  return tensor;
}

}  // namespace

absl::StatusOr<HostTensor> ParseNpy(absl::string_view bytes,
                                    const std::string& name,
                                    const ReadOptions& options) {
  auto tensor = Parse(bytes, options);
  if (tensor.ok()) return tensor;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", tensor.status().message()));
}

std::string SerializeNpy(const HostTensor& tensor) {
  const absl::Span<const int64_t> dims = tensor.shape().dims();
  std::string header = FormatNpyHeader(
      {.descr = DescrOf(tensor.dtype()), .shape = {dims.begin(), dims.end()}});
  constexpr size_t kFixed = kPreludeBytes + 2;
  const size_t unpadded = kFixed + header.size() + 1;
  header.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment,
                ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {1, 0, static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(tensor.data()),
               tensor.byte_count());
  return bytes;
}

}  // namespace attn
