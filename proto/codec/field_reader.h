// The fields of one message, one after the other, as they lie on the wire.
#pragma once

#include <cstdint>
#include <string>

#include "google/protobuf/io/coded_stream.h"

namespace attn {

// Walks over the fields of a message that ends at the input's current limit:
//
//   FieldReader fields(input);
//   while (fields.Next()) { one of the methods that take the value }
//   if (!fields.ok()) malformed
//
// A method returns false if the value is malformed or cut short; ok() is false
// from then on. No length is believed before it was held against the bytes
// that are left. Borrows the input; thread-compatible.
class FieldReader {
 public:
  explicit FieldReader(google::protobuf::io::CodedInputStream& input)
      : input_(input) {}

  bool Next();
  bool ok() const { return ok_; }

  int Number() const;
  // As protobuf's WireFormatLite::WireType has it.
  int WireType() const;
  // Whether the value is length-delimited: a string, bytes or a message.
  bool IsDelimited() const;

  // The length of a delimited value, which the caller then takes.
  bool TakeLength(int* length);
  // A delimited value.
  bool TakeBytes(std::string* value);
  // A varint.
  bool TakeVarint(uint64_t* value);
  // Appends tag and value to `fields` as they came.
  bool CopyTo(std::string* fields);
  bool Skip();

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }
  // Whether what was read since `start` has the length of a 32-bit varint.
  bool IsShort(int start) const;
  // Appends `length` bytes.
  bool Append(int length, std::string* bytes);

  google::protobuf::io::CodedInputStream& input_;
  uint32_t tag_ = 0;
  bool ok_ = true;
};

}  // namespace attn
