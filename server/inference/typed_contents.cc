#include "server/inference/typed_contents.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/codec/field_reader.h"
#include "server/inference/datatype.h"

namespace attn {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;
using Contents = inference::InferTensorContents;

// The field of a datatype; 0: it has none.
int ContentsFieldOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Contents::kFp32ContentsFieldNumber;
    case DType::kF64:
      return Contents::kFp64ContentsFieldNumber;
    case DType::kBool:
      return Contents::kBoolContentsFieldNumber;
    case DType::kI8:
    case DType::kI32:
      return Contents::kIntContentsFieldNumber;
    case DType::kI64:
      return Contents::kInt64ContentsFieldNumber;
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return 0;
}

std::string NameOf(int field) {
  return Contents::descriptor()->FindFieldByNumber(field)->name();
}

WireFormatLite::WireType WireTypeOf(int field) {
  if (field == Contents::kFp32ContentsFieldNumber) {
    return WireFormatLite::WIRETYPE_FIXED32;
  }
  if (field == Contents::kFp64ContentsFieldNumber) {
    return WireFormatLite::WIRETYPE_FIXED64;
  }
  return WireFormatLite::WIRETYPE_VARINT;
}

bool ReadElement(CodedInputStream& input, WireFormatLite::WireType type,
                 uint64_t* bits) {
  if (type == WireFormatLite::WIRETYPE_VARINT) return input.ReadVarint64(bits);
  if (type == WireFormatLite::WIRETYPE_FIXED64) {
    return input.ReadLittleEndian64(bits);
  }
  uint32_t half = 0;
  const bool read = input.ReadLittleEndian32(&half);
  *bits = half;
  return read;
}

// Gives `sink` each element of `field` in the order of the wire, packed or not.
// A field that the message does not have is passed over.
template <typename Sink>
absl::Status ForEachElement(const std::string& encoded, int field,
                            const std::string& name, const Sink& sink) {
  const WireFormatLite::WireType type = WireTypeOf(field);
  ArrayInputStream stream(encoded.data(), static_cast<int>(encoded.size()));
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(encoded.size()));
  FieldReader fields(input);
  const auto malformed = [&name] {
    return FieldError(name, "malformed protobuf", "a well-formed message");
  };
  uint64_t bits = 0;
  while (fields.Next()) {
    const int number = fields.Number();
    if (Contents::descriptor()->FindFieldByNumber(number) == nullptr) {
      fields.Skip();
      continue;
    }
    if (number != field) {
      return FieldError(name, NameOf(number), NameOf(field));
    }
    if (fields.IsDelimited()) {
      int length = 0;
      if (!fields.TakeLength(&length)) return malformed();
      const CodedInputStream::Limit limit = input.PushLimit(length);
      while (input.BytesUntilLimit() > 0) {
        if (!ReadElement(input, type, &bits)) return malformed();
        sink(bits);
      }
      input.PopLimit(limit);
      continue;
    }
    if (fields.WireType() != type || !ReadElement(input, type, &bits)) {
      return malformed();
    }
    sink(bits);
  }
  return fields.ok() ? absl::OkStatus() : malformed();
}

// Writes elements one after the other.
class ElementWriter {
 public:
  ElementWriter(std::byte* to, DType dtype) : to_(to), dtype_(dtype) {}

  void Write(uint64_t bits) {
    switch (dtype_) {
      case DType::kBool:
        return Put(static_cast<uint8_t>(bits != 0));
      case DType::kI8: {
        const auto value = static_cast<int32_t>(bits);
        if (value != static_cast<int8_t>(value)) misfit_ = value;
        return Put(static_cast<int8_t>(value));
      }
      case DType::kF32:
      case DType::kI32:
        return Put(static_cast<uint32_t>(bits));
      default:
        return Put(bits);
    }
  }
  // One that the type does not hold; 0: there is none.
  int32_t misfit() const { return misfit_; }

 private:
  template <typename T>
  void Put(T value) {
    std::memcpy(to_, &value, sizeof(value));
    to_ += sizeof(value);
  }

  std::byte* to_;
  const DType dtype_;
  int32_t misfit_ = 0;
};

}  // namespace

absl::StatusOr<AlignedBuffer> DecodeContents(InferContents& contents,
                                             DType dtype, const Shape& shape,
                                             const std::string& name,
                                             const BookBytes& book) {
  const std::string path = absl::StrCat(name, ".contents");
  const int field = ContentsFieldOf(dtype);
  if (field == 0) {
    return FieldError(path,
                      absl::StrCat("typed contents of ", DatatypeOf(dtype)),
                      "raw_input_contents, as the protocol has it");
  }
  if (contents.packed_field != 0 && contents.packed_field != field) {
    return FieldError(path, NameOf(contents.packed_field), NameOf(field));
  }
  const int64_t expected = shape.element_count();
  const auto width = static_cast<int64_t>(SizeOf(dtype));
  const std::string encoded = std::exchange(contents.encoded, {});
  int64_t count = static_cast<int64_t>(contents.packed.size()) / width;
  if (contents.packed_field == 0) {
    absl::Status read =
        ForEachElement(encoded, field, path, [&count](uint64_t) { ++count; });
    if (!read.ok()) return read;
  }
  if (count != expected) {
    return FieldError(path, absl::StrCat(count, " elements"),
                      absl::StrCat(expected, " for ", DatatypeOf(dtype), " ",
                                   shape.ToString()));
  }
  if (contents.packed_field != 0) return std::move(contents.packed);
  absl::Status booked = book(expected * width);
  if (!booked.ok()) return booked;
  AlignedBuffer data(static_cast<size_t>(expected * width));
  ElementWriter writer(data.data(), dtype);
  absl::Status written = ForEachElement(
      encoded, field, path, [&writer](uint64_t bits) { writer.Write(bits); });
  if (!written.ok()) return written;
  if (writer.misfit() != 0) {
    return FieldError(path, absl::StrCat(writer.misfit()), "-128 to 127: INT8");
  }
  return data;
}

}  // namespace attn
