#include "client/library/layer_client.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/library/scripted_server.h"
#include "tests/client/testing/scratch_folder.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Servers one after the other over one --layer-dir.
class LayerClientTest : public ::testing::Test {
 protected:
  LayerClientTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    Restart();
  }
  ~LayerClientTest() override { server_->Hurry(); }

  void Restart(int64_t max_layer_bytes = 1 << 20) {
    if (server_ != nullptr) server_->Stop();
    server_ = nullptr;
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    options.layer_dir = folder_.File("layers");
    options.max_layer_bytes = max_layer_bytes;
    auto server = Server::Start(options, log_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client =
        LayerClient::Connect({.address = server_->grpc_addresses()[0]});
    ASSERT_TRUE(client.ok());
    client_ = std::make_unique<LayerClient>(*client);
  }

  static HostTensor Ramp(DType dtype, const Shape& shape) {
    HostTensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      tensor.Set(i, static_cast<double>(i));
    }
    return tensor;
  }

  ScratchFolder folder_;
  LineLog log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<LayerClient> client_;
};

TEST_F(LayerClientTest, ALayerComesBackAsItWasPutAlsoAfterARestart) {
  const HostTensor w = Ramp(DType::kF32, {300, 70});
  const HostTensor b = Ramp(DType::kBF16, {3});
  const auto put = client_->Put("layer", {{"w", w.view()}, {"b", b.view()}});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->bytes(), 300 * 70 * 4 + 6);
  EXPECT_NE(put->version(), 0u);
  for (int i = 0; i < 2; ++i) {
    const auto layer = client_->Get("layer");
    ASSERT_TRUE(layer.ok()) << layer.status();
    EXPECT_EQ(layer->info.version(), put->version());
    ASSERT_THAT(layer->tensors, SizeIs(2));
    EXPECT_EQ(layer->tensors.at("b").dtype(), DType::kBF16);
    const HostTensor& got = layer->tensors.at("w");
    ASSERT_EQ(got.shape(), w.shape());
    for (int64_t j = 0; j < w.element_count(); ++j) {
      ASSERT_EQ(got.At(j), w.At(j));
    }
    Restart();
  }
}

TEST_F(LayerClientTest, ADescriptionHasNoPayloads) {
  const HostTensor w = Ramp(DType::kF64, {2, 3});
  ASSERT_TRUE(client_->Put("layer", {{"w", w.view()}}).ok());
  const auto info = client_->Describe("layer");
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->tensors_size(), 1);
  EXPECT_EQ(info->tensors(0).tensor().dtype(), v1::DATA_TYPE_F64);
  EXPECT_EQ(info->tensors(0).tensor().shape(1), 3);
}

TEST_F(LayerClientTest, ListsMoreThanAPageInOrder) {
  const HostTensor w = Ramp(DType::kF32, {1});
  Restart(1 << 20);
  for (int i = 0; i < 102; ++i) {
    ASSERT_TRUE(
        client_->Put(absl::StrCat("l", 1000 + i), {{"w", w.view()}}).ok());
  }
  const auto layers = client_->List();
  ASSERT_TRUE(layers.ok()) << layers.status();
  ASSERT_THAT(*layers, SizeIs(102));
  EXPECT_EQ((*layers)[0].name(), "l1000");
  EXPECT_EQ((*layers)[101].name(), "l1101");
}

TEST_F(LayerClientTest, WhatIsDeletedIsNotFound) {
  const HostTensor w = Ramp(DType::kF32, {1});
  ASSERT_TRUE(client_->Put("layer", {{"w", w.view()}}).ok());
  EXPECT_TRUE(client_->Delete("layer").ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Delete("layer")));
  EXPECT_TRUE(absl::IsNotFound(client_->Get("layer").status()));
  Restart();
  EXPECT_TRUE(absl::IsNotFound(client_->Describe("layer").status()));
}

TEST_F(LayerClientTest, RefusalsNameTheFieldOrTheFlag) {
  const HostTensor w = Ramp(DType::kF32, {1000});
  const auto bad = client_->Put("../up", {{"w", w.view()}});
  EXPECT_EQ(FieldOf(bad.status()), "name");
  EXPECT_EQ(FieldOf(client_->Put("x", {}).status()), "tensors");
  Restart(100);
  const auto full = client_->Put("x", {{"w", w.view()}});
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_THAT(std::string(full.status().message()),
              HasSubstr("--max-layer-bytes=100"));
}

TEST(LayerClientDeadline, IsOneForAllPagesOfAList) {
  ScriptedServer endless;
  v1::ListLayersResponse page;
  page.set_next_page_token("more");
  endless.AnswerWith(page.SerializeAsString());
  const auto client = LayerClient::Connect(
      {.address = endless.address(), .deadline = absl::Milliseconds(300)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(client->List().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      client->List({.deadline = absl::Milliseconds(100)}).status()));
}

}  // namespace
}  // namespace attn
