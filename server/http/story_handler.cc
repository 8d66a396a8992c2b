#include "server/http/story_handler.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "attention/v1/attention.grpc.pb.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"
#include "proto/codec/schema.h"
#include "proto/codec/status_codec.h"
#include "server/http/gateway_metadata.h"
#include "server/http/http_error.h"
#include "server/rpc/memory_guard.h"
#include "server/story/embedded_model.h"
#include "server/story/heads.h"
#include "server/story/story_model.h"
#include "server/story/tokenizer.h"

namespace attn {
namespace {

using StoryJson = nlohmann::ordered_json;

constexpr char kName[] = "tiny";
// Beyond any text that is not too long, with each byte as "\u00e4". Parsed,
// JSON may take a hundred times its size, and nobody has asked yet who calls.
constexpr size_t kLargestBody = size_t{64} << 10;

void SetFloats(const std::vector<float>& values,
               const std::vector<int64_t>& shape, v1::Tensor& tensor) {
  tensor.set_dtype(v1::DATA_TYPE_F32);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
}

// Protobuf's JSON mapping of a Tensor.
StoryJson TensorJson(const std::vector<float>& values,
                     const std::vector<int64_t>& shape) {
  StoryJson extents = StoryJson::array();
  for (const int64_t extent : shape) extents.push_back(absl::StrCat(extent));
  return {{"dtype", "DATA_TYPE_F32"},
          {"shape", std::move(extents)},
          {"data", absl::Base64Escape(absl::string_view(
                       reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(float)))}};
}

HttpResponse JsonResponse(const StoryJson& json) {
  return {.status = 200,
          .headers = {{"Content-Type", "application/json"},
                      {"Cache-Control", "no-store"}},
          .body = absl::StrCat(json.dump(), "\n")};
}

absl::StatusOr<std::string> TextOfBody(const std::string& body) {
  if (body.size() > kLargestBody) {
    return FieldError("body", absl::StrCat(body.size(), " bytes"),
                      absl::StrCat("at most ", kLargestBody));
  }
  // Not the ordered kind, which looks for each name among all others.
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("text") ||
      !json["text"].is_string()) {
    return FieldError("body", "something else", "{\"text\": \"...\"}");
  }
  return json["text"].get<std::string>();
}

}  // namespace

class StoryHandler::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, StoryTokenizer tokenizer,
       StoryModel model, std::vector<std::vector<StoryHeadNote>> notes)
      : stub_(v1::AttentionService::NewStub(channel)),
        tokenizer_(std::move(tokenizer)),
        model_(std::move(model)),
        notes_(std::move(notes)) {}
  ~Impl() { pool_.join(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Handle(std::shared_ptr<HttpExchange> exchange) {
    const std::string& method = exchange->request().method;
    if (method == "GET" || method == "HEAD") {
      return exchange->Respond(JsonResponse(Describe()));
    }
    if (method != "POST") {
      return exchange->Respond(WrongMethod(method, "GET, POST"));
    }
    if (auto refusal = RefuseUnlessJson(exchange->request())) {
      return exchange->Respond(*std::move(refusal));
    }
    const auto left = std::make_shared<std::atomic<bool>>(false);
    exchange->OnGone([left] { *left = true; });
    boost::asio::post(pool_, [this, left, exchange = std::move(exchange)] {
      // Nobody waits for it, and whoever stops would wait for all of them.
      if (*left) return;
      auto response = RefusingMemory([&] { return Read(*exchange); });
      exchange->Respond(response.ok() ? *std::move(response)
                                      : ErrorResponse(response.status()));
    });
  }

 private:
  StoryJson Describe() const {
    const StoryShape& shape = model_.shape();
    StoryJson layers = StoryJson::array();
    for (const auto& layer : notes_) {
      StoryJson heads = StoryJson::array();
      for (const StoryHeadNote& note : layer) {
        heads.push_back({{"kind", note.kind}, {"summary", note.summary}});
      }
      layers.push_back(std::move(heads));
    }
    return {{"name", kName},
            {"layers", shape.layers},
            {"heads", shape.heads},
            {"kvHeads", shape.kv_heads},
            {"headDim", shape.head_dim()},
            {"longestText", shape.longest_text},
            {"headNotes", std::move(layers)}};
  }

  absl::StatusOr<HttpResponse> Read(HttpExchange& exchange) {
    const auto text = TextOfBody(exchange.request().body);
    if (!text.ok()) return text.status();
    const auto ids = tokenizer_.Encode(*text, model_.shape().longest_text);
    if (!ids.ok()) return ids.status();
    const auto reading = model_.Read(
        *ids, [&](const StoryQkv& layer) { return Attend(layer, exchange); });
    if (!reading.ok()) return reading.status();
    StoryJson tokens = StoryJson::array();
    for (const int32_t id : *ids) {
      const auto shown = tokenizer_.Display(id);
      if (!shown.ok()) return shown.status();
      tokens.push_back({{"id", id}, {"text", *shown}});
    }
    const StoryShape& shape = model_.shape();
    StoryJson layers = StoryJson::array();
    for (const StoryQkv& layer : reading->layers) {
      layers.push_back(
          {{"q", TensorJson(layer.q, Extents(shape.heads, layer.tokens))},
           {"k", TensorJson(layer.k, Extents(shape.kv_heads, layer.tokens))},
           {"v", TensorJson(layer.v, Extents(shape.kv_heads, layer.tokens))}});
    }
    return JsonResponse(
        {{"tokens", std::move(tokens)}, {"layers", std::move(layers)}});
  }

  std::vector<int64_t> Extents(int64_t heads, int64_t tokens) const {
    return {1, heads, tokens, model_.shape().head_dim()};
  }

  // One layer's attention, by the server, as the caller.
  absl::StatusOr<std::vector<float>> Attend(const StoryQkv& layer,
                                            HttpExchange& exchange) {
    const StoryShape& shape = model_.shape();
    v1::AttendRequest request;
    v1::AttentionSpec& spec = *request.mutable_spec();
    spec.add_transforms()->mutable_rotary()->set_layout(
        v1::ROTARY_LAYOUT_INTERLEAVED);
    spec.add_masks()->mutable_causal();
    SetFloats(layer.q, Extents(shape.heads, layer.tokens),
              *request.mutable_q());
    SetFloats(layer.k, Extents(shape.kv_heads, layer.tokens),
              *request.mutable_k());
    SetFloats(layer.v, Extents(shape.kv_heads, layer.tokens),
              *request.mutable_v());
    const auto context = std::make_shared<grpc::ClientContext>();
    absl::Status status = PassOnMetadata(exchange.request(), *context);
    if (!status.ok()) return status;
    // In place of the last layer's.
    exchange.OnGone([weak = std::weak_ptr<grpc::ClientContext>(context)] {
      if (const auto still = weak.lock()) still->TryCancel();
    });
    v1::AttendResponse response;
    status = FromGrpcStatus(stub_->Attend(context.get(), request, &response));
    if (!status.ok()) return status;
    const std::string& data = response.output().data();
    std::vector<float> output(data.size() / sizeof(float));
    std::memcpy(output.data(), data.data(), output.size() * sizeof(float));
    return output;
  }

  const std::unique_ptr<v1::AttentionService::Stub> stub_;
  const StoryTokenizer tokenizer_;
  const StoryModel model_;
  const std::vector<std::vector<StoryHeadNote>> notes_;
  boost::asio::thread_pool pool_{1};
};

StoryHandler::StoryHandler(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

StoryHandler::~StoryHandler() = default;

absl::StatusOr<std::unique_ptr<StoryHandler>> StoryHandler::Make(
    std::shared_ptr<grpc::Channel> channel) {
  auto tokenizer = StoryTokenizer::Parse(StoryTokenizerFile());
  if (!tokenizer.ok()) return tokenizer.status();
  auto model = StoryModel::Parse(StoryWeightsFile());
  if (!model.ok()) return model.status();
  auto notes = ParseStoryHeadNotes(StoryHeadsFile(), model->shape().layers,
                                   model->shape().heads);
  if (!notes.ok()) return notes.status();
  return std::unique_ptr<StoryHandler>(new StoryHandler(
      std::make_unique<Impl>(std::move(channel), *std::move(tokenizer),
                             *std::move(model), *std::move(notes))));
}

void StoryHandler::Handle(std::shared_ptr<HttpExchange> exchange) {
  impl_->Handle(std::move(exchange));
}

}  // namespace attn
