#include "proto/codec/field_reader.h"

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/codec/chunk_writer.h"

namespace attn {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// A tag or a length that takes more is malformed, even if the rest is zeros.
constexpr int kMaxVarint32Bytes = 5;

}  // namespace

bool FieldReader::Next() {
  if (!ok_) return false;
  const int start = input_.CurrentPosition();
  tag_ = input_.ReadTag();
  if (tag_ != 0) {
    return (Number() != 0 && IsShort(start)) || Fail();
  }
  // 0 is the end, or a broken tag, or the end of a stream that should go on.
  ok_ = input_.ConsumedEntireMessage() && input_.BytesUntilLimit() == 0;
  return false;
}

int FieldReader::Number() const {
  return WireFormatLite::GetTagFieldNumber(tag_);
}

int FieldReader::WireType() const {
  return WireFormatLite::GetTagWireType(tag_);
}

bool FieldReader::IsDelimited() const {
  return WireType() == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

bool FieldReader::TakeLength(int* length) {
  const int start = input_.CurrentPosition();
  return (input_.ReadVarintSizeAsInt(length) && IsShort(start) &&
          *length <= input_.BytesUntilLimit()) ||
         Fail();
}

bool FieldReader::TakeBytes(std::string* value) {
  int length = 0;
  value->clear();
  return TakeLength(&length) && Append(length, value);
}

bool FieldReader::TakeVarint(uint64_t* value) {
  return (WireType() == WireFormatLite::WIRETYPE_VARINT &&
          input_.ReadVarint64(value)) ||
         Fail();
}

bool FieldReader::CopyTo(std::string* fields) {
  if (!IsDelimited()) {
    // By way of a short string: a stream fills up all that the string it writes
    // to has room for, each time.
    std::string field;
    {
      StringOutputStream stream(&field);
      CodedOutputStream output(&stream);
      if (!WireFormatLite::SkipField(&input_, tag_, &output)) return Fail();
    }
    *fields += field;
    return true;
  }
  int length = 0;
  if (!TakeLength(&length)) return false;
  AppendVarint(tag_, *fields);
  AppendVarint(static_cast<uint64_t>(length), *fields);
  return Append(length, fields);
}

bool FieldReader::Skip() {
  if (!IsDelimited()) {
    return WireFormatLite::SkipField(&input_, tag_) || Fail();
  }
  int length = 0;
  return TakeLength(&length) && (input_.Skip(length) || Fail());
}

bool FieldReader::IsShort(int start) const {
  return input_.CurrentPosition() - start <= kMaxVarint32Bytes;
}

bool FieldReader::Append(int length, std::string* bytes) {
  const size_t old_size = bytes->size();
  bytes->resize(old_size + static_cast<size_t>(length));
  return input_.ReadRaw(bytes->data() + old_size, length) || Fail();
}

}  // namespace attn
