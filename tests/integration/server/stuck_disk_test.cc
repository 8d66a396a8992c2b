// Writes of layers while the disk does not answer.
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "attention/v1/layer.grpc.pb.h"
#include "gtest/gtest.h"
#include "server/rpc/layer_service.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/engine/runtime/fake_clock.h"
#include "tests/integration/server/running_server.h"
#include "tests/server/rpc/null_metrics.h"

namespace attn {
namespace {

class StuckDisk : public ::testing::Test {
 protected:
  StuckDisk() {
    admission_.Open();
    auto store = LayerStore::Open({.directory = folder_.path(),
                                   .sync =
                                       [this](const std::string&) {
                                         Sync();
                                         return absl::OkStatus();
                                       }},
                                  [](absl::string_view) {});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    context_ = std::make_unique<LayerServiceContext>(LayerServiceContext{
        *store_, admission_, {observer_, clock_, callers_, replies_, 1 << 20}});
    service_ = std::make_unique<LayerService>(*context_);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = wire::LayerService::NewStub(
        RunningServer::Connect("127.0.0.1:" + std::to_string(port)));
  }

  std::future<grpc::Status> Put(const std::string& name) {
    return std::async(std::launch::async, [this, name] {
      wire::PutLayerRequest request;
      request.set_name(name);
      request.add_tensors()->set_name("w");
      *request.mutable_tensors(0)->mutable_tensor() = FloatTensor({1}, {1});
      grpc::ClientContext context;
      wire::PutLayerResponse response;
      return stub_->PutLayer(&context, request, &response);
    });
  }
  bool IsWriting() {
    const MutexLock lock(mutex_);
    return writing_;
  }
  // From now on the disk answers.
  void Answer() {
    const MutexLock lock(mutex_);
    answers_ = true;
    changed_.NotifyAll();
  }

  FakeClock clock_;
  Admission admission_{{}, clock_};

  std::unique_ptr<LayerStore> store_;

 private:
  void Sync() {
    const MutexLock lock(mutex_);
    writing_ = true;
    while (!answers_) changed_.Wait(mutex_);
  }

  ScratchFolder folder_;
  NullMetrics metrics_;
  const LineLog log_{LogFormat::kText, [](const std::string&) {}};
  CallObserver observer_{{}, metrics_, log_};
  const CallerReader callers_{clock_, absl::Minutes(1)};
  ReplyWatch replies_{clock_, absl::Hours(1)};
  Mutex mutex_;
  CondVar changed_;
  bool writing_ ATTN_GUARDED_BY(mutex_) = false;
  bool answers_ ATTN_GUARDED_BY(mutex_) = false;
  std::unique_ptr<LayerServiceContext> context_;
  std::unique_ptr<LayerService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<wire::LayerService::Stub> stub_;
};

TEST_F(StuckDisk, AWriteWhoseCallIsLateByThenIsNotMade) {
  auto first = Put("first");
  EXPECT_TRUE(Becomes([this] { return IsWriting(); }));
  auto late = Put("late");
  EXPECT_TRUE(Becomes([this] { return admission_.requests() == 2; }));
  clock_.Advance(absl::Minutes(2));
  auto wanted = Put("wanted");
  EXPECT_TRUE(Becomes([this] { return admission_.requests() == 3; }));
  Answer();
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(late.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(wanted.get().ok());
  EXPECT_NE(store_->Find("first"), nullptr);
  EXPECT_EQ(store_->Find("late"), nullptr);
  EXPECT_NE(store_->Find("wanted"), nullptr);
}

}  // namespace
}  // namespace attn
