// No room includes what it may not: the repository itself, and planted
// violations, which must be caught.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/layering/room_rules.h"

namespace attn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Small trees of files in a folder of their own.
class PlantedTree : public ::testing::Test {
 protected:
  PlantedTree()
      : root_(fs::path(::testing::TempDir()) /
              ("attn_layering_" + std::to_string(getpid()))) {}

  void TearDown() override { fs::remove_all(root_); }

  void Plant(const std::string& file, const std::string& include) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file, std::ios::app)
        << "#include \"" << include << "\"\n";
  }

  std::vector<std::string> Found() const { return Violations(root_); }

  fs::path root_;
};

TEST(Layering, TheRepositoryIsFreeOfViolations) {
  EXPECT_THAT(Violations(ATTN_SOURCE_DIR), IsEmpty());
}

TEST(Layering, TheRepositoryIsReallyRead) {
  size_t files = 0;
  for (const char* top : {"engine", "proto", "server", "client"}) {
    files += SourceFiles(ATTN_SOURCE_DIR, top).size();
  }
  EXPECT_GT(files, 50U);
}

struct Violation {
  std::string name;
  std::string file;
  std::string include;
  // A part of the rule that is to be quoted.
  std::string rule;
};

void PrintTo(const Violation& violation, std::ostream* out) {
  *out << violation.file << " -> " << violation.include;
}

class PlantedViolation : public PlantedTree,
                         public ::testing::WithParamInterface<Violation> {};

TEST_P(PlantedViolation, IsReportedWithFileIncludeAndRule) {
  Plant("engine/core/innocent.h", "absl/status/status.h");
  Plant(GetParam().file, GetParam().include);
  const std::vector<std::string> found = Found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr(GetParam().file + ":1"));
  EXPECT_THAT(found[0], HasSubstr("\"" + GetParam().include + "\""));
  EXPECT_THAT(found[0], HasSubstr(GetParam().rule));
}

// Every row of the design's table, and each of its "never".
const Violation kViolations[] = {
    {"CoreSeesRuntime", "engine/core/a.h", "engine/runtime/arena.h",
     "engine/core may include of ours nothing"},
    {"CoreSeesGrpc", "engine/core/a.h", "grpcpp/grpcpp.h", "gRPC is not for"},
    {"RuntimeSeesMasks", "engine/runtime/a.cc", "engine/masks/mask.h",
     "engine/runtime may include of ours engine/core"},
    {"RuntimeSeesServer", "engine/runtime/a.cc", "server/metrics/metrics.h",
     "engine/runtime may include"},
    {"TileSeesKernels", "engine/tile/a.h", "engine/kernels/kernel.h",
     "engine/tile may include of ours engine/core"},
    {"TileSeesGrpc", "engine/tile/a.h", "grpcpp/grpcpp.h", "gRPC is not for"},
    {"ScoreStartsThreads", "engine/scores/a.cc", "thread",
     "threads is not for engine/scores"},
    {"BiasSeesOneDnn", "engine/biases/a.cc", "dnnl.hpp", "oneDNN belongs in"},
    {"MaskSeesBias", "engine/masks/a.cc", "engine/biases/bias.h",
     "engine/masks may include of ours engine/core, engine/tile"},
    {"NormalizerLocks", "engine/normalizers/a.cc", "mutex",
     "threads is not for engine/normalizers"},
    {"NormalizerSeesRuntime", "engine/normalizers/a.cc",
     "engine/runtime/mutex.h", "engine/normalizers may include"},
    {"KernelSeesCache", "engine/kernels/a.cc", "engine/cache/page.h",
     "engine/kernels may include"},
    {"KernelSeesProto", "engine/kernels/a.cc", "proto/codec/attend_codec.h",
     "engine/kernels may include"},
    {"KernelSeesPlan", "engine/kernels/a.cc", "engine/plan/plan.h",
     "engine/kernels may include"},
    {"OtherKernelSeesOneDnn", "engine/kernels/rowwise.cc", "oneapi/dnnl/dnnl.h",
     "oneDNN belongs in engine/kernels/onednn*"},
    {"CacheSeesProto", "engine/cache/a.cc", "attention/v1/attention.pb.h",
     "engine/cache may include of ours engine/core, engine/runtime"},
    {"CacheSeesKernels", "engine/cache/a.cc", "engine/kernels/kernel.h",
     "engine/cache may include"},
    {"PlanSeesDoor", "engine/plan/a.cc", "engine/engine.h",
     "engine/plan may include"},
    {"DoorSeesServer", "engine/engine.cc", "server/batching/batcher.h",
     "engine may include of ours engine/core"},
    {"DoorSeesOneDnn", "engine/engine.cc", "dnnl.hpp", "oneDNN belongs in"},
    {"DoorSeesProto", "engine/engine.cc", "attention/v1/attention.pb.h",
     "engine may include"},
    {"CodecSeesServer", "proto/codec/a.cc", "server/rpc/a.h",
     "proto may include of ours engine/core"},
    {"CodecSeesKernels", "proto/codec/a.cc", "engine/kernels/kernel.h",
     "proto may include"},
    {"BatchingSeesGrpc", "server/batching/a.cc", "grpcpp/server.h",
     "gRPC is not for server/batching"},
    {"BatchingSeesProtobuf", "server/batching/a.cc",
     "google/protobuf/message.h", "protobuf is not for server/batching"},
    {"BatchingSeesPrometheus", "server/batching/a.cc", "prometheus/counter.h",
     "Prometheus belongs in"},
    {"BatchingSeesKernels", "server/batching/a.cc", "engine/kernels/kernel.h",
     "server/batching may include of ours engine/core, engine/runtime"},
    {"BatchingSeesDoor", "server/batching/a.cc", "engine/engine.h",
     "server/batching may include"},
    {"SessionsSeeGrpc", "server/sessions/a.cc", "grpcpp/server.h",
     "gRPC is not for server/sessions"},
    {"SessionsSeeTheSchema", "server/sessions/a.cc",
     "attention/v1/session.pb.h",
     "server/sessions may include of ours engine/core, engine/runtime, "
     "engine/cache"},
    {"SessionsSeeRpc", "server/sessions/a.cc", "server/rpc/reply_status.h",
     "server/sessions may include"},
    {"SessionsSeeMetrics", "server/sessions/a.cc", "server/metrics/metrics.h",
     "server/sessions may include"},
    {"MetricsSeesGrpc", "server/metrics/metrics.h", "grpcpp/server.h",
     "gRPC is not for server/metrics"},
    {"MetricsSeesEngine", "server/metrics/metrics.h", "engine/core/dtype.h",
     "server/metrics may include of ours nothing"},
    {"OtherMetricsFileSeesPrometheus", "server/metrics/exposer.cc",
     "prometheus/exposer.h", "server/metrics/prometheus_metrics.* only"},
    {"OtherMetricsFileSeesCivetWeb", "server/metrics/text_page.cc",
     "CivetServer.h", "server/metrics/metrics_server.* only"},
    {"RpcSeesOneDnn", "server/rpc/a.cc", "dnnl.hpp", "oneDNN belongs in"},
    {"RpcSeesKernels", "server/rpc/a.cc", "engine/kernels/kernel.h",
     "server/rpc may include"},
    {"RpcSeesPrometheus", "server/rpc/a.cc", "prometheus/counter.h",
     "Prometheus belongs in"},
    {"RpcSeesPrometheusMetrics", "server/rpc/a.cc",
     "server/metrics/prometheus_metrics.h", "server/rpc may include"},
    {"RpcSeesApp", "server/rpc/a.cc", "server/app/server.h",
     "server/rpc may include"},
    {"InferenceSeesKernels", "server/inference/a.cc", "engine/kernels/kernel.h",
     "server/inference may include"},
    {"InferenceSeesPrometheus", "server/inference/a.cc", "prometheus/counter.h",
     "Prometheus belongs in"},
    {"RpcSeesInference", "server/rpc/a.cc", "server/inference/infer_job.h",
     "server/rpc may include"},
    {"CoreSeesOpenInference", "engine/core/a.cc",
     "inference/open_inference.pb.h",
     "engine/core may include of ours nothing"},
    {"MainSeesRpc", "server/main/main.cc", "server/rpc/a.h",
     "server/main may include of ours server/app"},
    {"ClientSeesServer", "client/library/a.cc", "server/app/server.h",
     "client/library may include of ours engine/core, proto"},
    {"ClientSeesDoor", "client/cli/a.cc", "engine/engine.h",
     "client/cli may include"},
    {"LoadTesterSeesDoor", "client/load/load_run.cc", "engine/engine.h",
     "client/load may include"},
    {"VerifierSeesKernels", "client/load/reference_output.cc",
     "engine/kernels/kernel.h", "client/load may include"},
    {"EngineSeesClient", "engine/engine.cc", "client/library/a.h",
     "engine may include"},
    {"ServerSeesClient", "server/app/a.cc", "client/library/a.h",
     "server/app may include"},
    {"RoomSeesTests", "server/app/a.cc", "tests/testing/oracle/oracle.h",
     "server/app may include"},
    {"NewFolderWithoutRow", "engine/new/a.cc", "engine/core/dtype.h",
     "in no room of the table"},
    {"UnknownLibrary", "server/app/a.cc", "folly/String.h",
     "unknown library is not for server/app"},
};

INSTANTIATE_TEST_SUITE_P(Layering, PlantedViolation,
                         ::testing::ValuesIn(kViolations),
                         [](const ::testing::TestParamInfo<Violation>& test) {
                           return test.param.name;
                         });

TEST_F(PlantedTree, AllowedIncludesAreNotReported) {
  Plant("engine/kernels/onednn_matmul.cc", "dnnl.hpp");
  Plant("engine/kernels/rowwise.cc", "engine/kernels/onednn_matmul.h");
  Plant("engine/kernels/rowwise.cc", "engine/masks/mask.h");
  Plant("server/metrics/prometheus_metrics.cc", "prometheus/counter.h");
  Plant("server/metrics/metrics_server.cc", "CivetServer.h");
  Plant("server/rpc/attend.cc", "engine/engine.h");
  Plant("server/rpc/attend.cc", "server/metrics/metrics.h");
  Plant("server/rpc/attend.cc", "attention/v1/attention.grpc.pb.h");
  Plant("client/load/reference_output.cc", "engine/engine.h");
  Plant("client/library/client.cc", "proto/codec/attend_codec.h");
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(PlantedTree, HeadersThatIncludeEachOtherAreACycle) {
  Plant("engine/core/a.h", "engine/core/b.h");
  Plant("engine/core/b.h", "engine/core/c.h");
  Plant("engine/core/c.h", "engine/core/a.h");
  EXPECT_THAT(Found(), Contains(HasSubstr("cycle: engine/core/a.h -> "
                                          "engine/core/b.h -> engine/core/c.h "
                                          "-> engine/core/a.h")));
}

TEST_F(PlantedTree, RoomsThatIncludeEachOtherAreACycle) {
  Plant("engine/core/a.h", "engine/tile/b.h");
  Plant("engine/tile/c.h", "engine/core/d.h");
  EXPECT_THAT(Found(), Contains(HasSubstr("cycle: engine/core -> engine/tile "
                                          "-> engine/core")));
}

// The table itself must not allow a circle.
TEST(Layering, NoTwoRoomsMayIncludeEachOther) {
  for (const Room& room : Rooms()) {
    for (const std::string& other : room.may_include) {
      for (const Room& candidate : Rooms()) {
        if (candidate.name != other) continue;
        EXPECT_THAT(candidate.may_include, ::testing::Not(Contains(room.name)))
            << room.name << " and " << other;
      }
    }
  }
}

TEST(Layering, EveryRoomOfTheTableExists) {
  for (const Room& room : Rooms()) {
    EXPECT_TRUE(fs::is_directory(fs::path(ATTN_SOURCE_DIR) / room.name))
        << room.name;
  }
}

}  // namespace
}  // namespace attn
