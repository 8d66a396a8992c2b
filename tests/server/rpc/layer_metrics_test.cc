// A call that takes tensors of layers, from its bytes to what metrics hear.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/layers/layer_store.h"
#include "server/rpc/attend_job.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/rpc/call_fixture.h"
#include "tests/server/rpc/reply_box.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace wire = ::attention::v1;

constexpr int64_t kLayerHeads = 2;
constexpr int64_t kLayerRows = 8;

// Notes what comes by layer and head.
class NotedLayers : public NullMetrics {
 public:
  void HeadsObserved(std::string_view layer,
                     std::span<const ObservedHead> heads) override {
    layers.emplace_back(layer);
    for (const ObservedHead& head : heads) rows.push_back(head.rows);
  }
  void DeadHeads(DeadReason reason, int64_t heads) override {
    if (reason == DeadReason::kConstantLogits) constant += heads;
  }

  std::vector<std::string> layers;
  std::vector<int64_t> rows;
  int64_t constant = 0;
};

// q is zeros: every logit of a head is the same, but for a bias.
wire::Tensor ZeroTensor() {
  wire::Tensor tensor;
  tensor.set_dtype(wire::DATA_TYPE_F32);
  for (const int64_t extent :
       {int64_t{1}, kLayerHeads, kLayerRows, int64_t{4}}) {
    tensor.add_shape(extent);
  }
  tensor.mutable_data()->assign(kLayerHeads * kLayerRows * 4 * sizeof(float),
                                '\0');
  return tensor;
}

StoredTensor StoredNumbers(const std::string& name, const Shape& shape,
                           const std::vector<float>& values) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.data = AlignedBuffer(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(),
            reinterpret_cast<float*>(tensor.data.data()));
  return tensor;
}

void NameLayerTensor(wire::TensorRef& ref, const std::string& layer) {
  ref.mutable_layer()->set_layer(layer);
  ref.mutable_layer()->set_tensor("t");
}

class LayerMetricsTest : public CallFixture {
 protected:
  LayerMetricsTest() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> bias(kLayerRows * kLayerRows);
    for (float& value : bias) value = normal(random);
    Put("table", StoredNumbers("t", {kLayerRows, kLayerRows}, bias));
    Put("of_heads", StoredNumbers("t", {kLayerHeads}, {0.5F, 2}));
    for (wire::Tensor* tensor :
         {request_.mutable_q(), request_.mutable_k(), request_.mutable_v()}) {
      *tensor = ZeroTensor();
    }
  }

  void Put(const std::string& name, StoredTensor tensor) {
    std::vector<StoredTensor> tensors;
    tensors.push_back(std::move(tensor));
    EXPECT_TRUE(store_->Put(name, std::move(tensors)).ok());
  }
  void Run() {
    ReplyBox box;
    grpc::ByteBuffer bytes = ToByteBuffer(request_);
    const auto job = std::make_shared<AttendJob>(
        counted_, Caller{.deadline = clock_.Now() + absl::Minutes(1)},
        box.Callback());
    job->Run(bytes);
    const absl::Status status = box.Wait();
    EXPECT_TRUE(status.ok()) << status;
    job->Report();
  }

  std::unique_ptr<LayerStore> store_ =
      *LayerStore::Open({}, [](absl::string_view) {});
  NotedLayers noted_;
  CallObserver counting_{{.entropy_sample_rate = 1}, noted_, log_};
  wire::AttendRequest request_;
  const CallContext counted_{.engine = engine_,
                             .admission = admission_,
                             .batcher = batcher_,
                             .observer = counting_,
                             .clock = clock_,
                             .max_message_bytes = 1 << 20,
                             .layers = store_.get()};
};

TEST_F(LayerMetricsTest, ACallIsToldOfUnderTheFirstLayerThatItsSpecNames) {
  wire::AttentionSpec& spec = *request_.mutable_spec();
  NameLayerTensor(*spec.add_biases()->mutable_dense()->mutable_tensor(),
                  "table");
  NameLayerTensor(*spec.add_biases()->mutable_constant()->mutable_values(),
                  "of_heads");
  Run();
  EXPECT_THAT(noted_.layers, ElementsAre("table"));
  EXPECT_THAT(noted_.rows, ElementsAre(kLayerRows, kLayerRows));
  EXPECT_EQ(noted_.constant, 0);
}

TEST_F(LayerMetricsTest, ACallWithoutALayerIsToldOfUnderNone) {
  Run();
  EXPECT_THAT(noted_.layers, IsEmpty());
  EXPECT_EQ(noted_.constant, kLayerHeads);
}

}  // namespace
}  // namespace attn
