#include "tests/integration/server/stream_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr std::chrono::seconds kHangGuard(60);

// The tensor of a response that a chunk names.
wire::Tensor* TensorOf(wire::Output output, wire::AttendResponse& response) {
  const auto* type = wire::AttendResponse::descriptor();
  // OUTPUT_MASKED_LOGITS is the field masked_logits.
  std::string name = wire::Output_Name(output).substr(sizeof("OUTPUT_") - 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const auto* field = type->FindFieldByName(name);
  if (field == nullptr) return nullptr;
  return static_cast<wire::Tensor*>(
      response.GetReflection()->MutableMessage(&response, field));
}

size_t SizeOf(const wire::Tensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape()) elements *= extent;
  const bool bytes = tensor.dtype() == wire::DATA_TYPE_BOOL;
  return static_cast<size_t>(elements) * (bytes ? 1 : sizeof(float));
}

// Whether every tensor of the response has its data. F32 and BOOL.
bool IsComplete(const wire::AttendResponse& response) {
  const auto& reflection = *response.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(response, &fields);
  for (const auto* field : fields) {
    if (field->message_type() != wire::Tensor::descriptor()) continue;
    const auto& tensor = static_cast<const wire::Tensor&>(
        reflection.GetMessage(response, field));
    if (tensor.data().size() != SizeOf(tensor)) return false;
  }
  return true;
}

void AddChunks(uint64_t call, wire::TensorSlot slot, uint32_t index,
               const std::string& data, size_t chunk_bytes,
               std::vector<wire::AttendStreamRequest>& chunks) {
  for (size_t offset = 0; offset < data.size(); offset += chunk_bytes) {
    chunks.push_back(ChunkOf(call, slot, static_cast<int64_t>(offset),
                             data.substr(offset, chunk_bytes)));
    chunks.back().mutable_chunk()->set_index(index);
  }
}

}  // namespace

wire::AttendStreamRequest HeaderOf(uint64_t call,
                                   const wire::AttendRequest& request) {
  wire::AttendStreamRequest message;
  message.set_call(call);
  wire::AttendRequest& header = *message.mutable_header();
  header = request;
  for (wire::Tensor* tensor :
       {header.mutable_q(), header.mutable_k(), header.mutable_v()}) {
    tensor->clear_data();
  }
  for (wire::Tensor& input : *header.mutable_inputs()) input.clear_data();
  return message;
}

wire::AttendStreamRequest ChunkOf(uint64_t call, wire::TensorSlot tensor,
                                  int64_t offset, const std::string& bytes) {
  wire::AttendStreamRequest message;
  message.set_call(call);
  message.mutable_chunk()->set_tensor(tensor);
  message.mutable_chunk()->set_offset(offset);
  message.mutable_chunk()->set_data(bytes);
  return message;
}

std::vector<wire::AttendStreamRequest> ChunksOf(
    uint64_t call, const wire::AttendRequest& request, size_t chunk_bytes) {
  std::vector<wire::AttendStreamRequest> chunks;
  AddChunks(call, wire::TENSOR_SLOT_Q, 0, request.q().data(), chunk_bytes,
            chunks);
  AddChunks(call, wire::TENSOR_SLOT_K, 0, request.k().data(), chunk_bytes,
            chunks);
  AddChunks(call, wire::TENSOR_SLOT_V, 0, request.v().data(), chunk_bytes,
            chunks);
  for (int i = 0; i < request.inputs_size(); ++i) {
    AddChunks(call, wire::TENSOR_SLOT_INPUT, static_cast<uint32_t>(i),
              request.inputs(i).data(), chunk_bytes, chunks);
  }
  return chunks;
}

wire::AttendStreamRequest WholeOf(uint64_t call,
                                  const wire::AttendRequest& request) {
  wire::AttendStreamRequest message;
  message.set_call(call);
  *message.mutable_request() = request;
  return message;
}

wire::AttendStreamRequest CancelOf(uint64_t call) {
  wire::AttendStreamRequest message;
  message.set_call(call);
  message.mutable_cancel();
  return message;
}

StreamClient::StreamClient(RunningServer& server)
    : stub_(wire::AttentionService::NewStub(
          RunningServer::Connect(server.address()))) {
  context_.set_deadline(std::chrono::system_clock::now() + kHangGuard);
  stream_ = stub_->AttendStream(&context_);
}

StreamClient::~StreamClient() {
  Cancel();
  Finish();
}

bool StreamClient::Write(const wire::AttendStreamRequest& message) {
  return stream_->Write(message);
}

bool StreamClient::Write(
    const std::vector<wire::AttendStreamRequest>& messages) {
  return std::all_of(messages.begin(), messages.end(),
                     [this](const auto& message) { return Write(message); });
}

std::optional<StreamAnswer> StreamClient::Next() {
  wire::AttendStreamResponse message;
  while (stream_->Read(&message)) {
    StreamAnswer& answer = partial_[message.call()];
    answer.call = message.call();
    ++answer.messages;
    answer.longest_message =
        std::max(answer.longest_message, message.ByteSizeLong());
    bool complete = true;
    if (message.has_status()) {
      answer.status = message.status();
    } else if (message.has_response()) {
      answer.response = message.response();
    } else if (message.has_header()) {
      answer.response = message.header();
      complete = IsComplete(answer.response);
    } else {
      wire::Tensor* tensor =
          TensorOf(message.chunk().tensor(), answer.response);
      EXPECT_NE(tensor, nullptr);
      EXPECT_EQ(message.chunk().offset(),
                static_cast<int64_t>(tensor->data().size()));
      *tensor->mutable_data() += message.chunk().data();
      complete = IsComplete(answer.response);
    }
    if (complete) return std::move(partial_.extract(message.call()).mapped());
  }
  return std::nullopt;
}

std::map<uint64_t, StreamAnswer> StreamClient::Take(size_t count) {
  std::map<uint64_t, StreamAnswer> answers;
  while (answers.size() < count) {
    auto answer = Next();
    if (!answer.has_value()) break;
    EXPECT_TRUE(answers.emplace(answer->call, *answer).second)
        << "two answers to call " << answer->call;
  }
  return answers;
}

grpc::Status StreamClient::Finish() {
  if (std::exchange(finished_, true)) return grpc::Status::OK;
  while (Next().has_value()) {
  }
  return stream_->Finish();
}

}  // namespace attn
