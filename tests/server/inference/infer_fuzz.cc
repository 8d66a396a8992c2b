// Bytes from anybody as a ModelInferRequest: taken whole or refused.
//
// Built and run as tests/proto/fuzz/attend_fuzz.cc is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "proto/codec/attend_parts.h"
#include "server/inference/infer_call.h"
#include "server/inference/infer_message.h"
#include "tests/proto/codec/piece_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

constexpr int64_t kMaxPayload = int64_t{1} << 20;
constexpr size_t kPieceSize = 5;

// Every byte of a view of a call that was taken can be read.
void TouchInput(const TensorView& view) {
  int sum = 0;
  for (int64_t i = 0; i < view.byte_count(); ++i) {
    sum += static_cast<int>(view.data[i]);
  }
  if (sum < 0) std::abort();
}

void RequireOneLine(const absl::Status& status) {
  if (status.message().find('\n') != absl::string_view::npos) std::abort();
}

void TryInferRequest(const std::string& bytes) {
  PieceStream stream(bytes, kPieceSize);
  auto message =
      ReadInferMessage(stream, static_cast<int64_t>(bytes.size()), kMaxPayload);
  if (!message.ok()) return RequireOneLine(message.status());
  int64_t booked = 0;
  const BookBytes book = [&booked](int64_t wanted) {
    booked += wanted;
    return booked <= kMaxPayload ? absl::OkStatus()
                                 : absl::ResourceExhaustedError("too much");
  };
  FieldNames names;
  auto infer = TranslateInferMessage(*std::move(message), book, names);
  if (!infer.ok()) return RequireOneLine(infer.status());
  const auto call = DecodeAttendParts(infer->request, infer->tensors);
  if (!call.ok()) return RequireOneLine(names.Rename(call.status()));
  TouchInput(call->args.q);
  TouchInput(call->args.k);
  // Projections may make it.
  if (call->args.v.data != nullptr) TouchInput(call->args.v);
  for (const TensorView& input : call->args.inputs) TouchInput(input);
}

}  // namespace
}  // namespace attn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The generated parser prints each string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  attn::TryInferRequest({reinterpret_cast<const char*>(data), size});
  return 0;
}
