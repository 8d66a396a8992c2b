// Every model against Attend with the spec that it stands for, and what is said
// of requests that do not fit.
#include "server/inference/infer_job.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/refusal.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/inference/infer_requests.h"
#include "tests/server/rpc/call_fixture.h"
#include "tests/server/rpc/reply_box.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InferJobTest : public CallFixture {
 protected:
  template <typename Job>
  absl::Status RunAs(const google::protobuf::Message& request,
                     google::protobuf::Message& response) {
    ReplyBox box;
    grpc::ByteBuffer bytes = ToByteBuffer(request);
    auto job = std::make_shared<Job>(
        context_, Caller{.deadline = clock_.Now() + absl::Minutes(5)},
        box.Callback());
    job->Run(bytes);
    absl::Status status = box.Wait();
    EXPECT_TRUE(!status.ok() || box.Parse(response));
    job->Report();
    return status;
  }
  absl::Status Infer(const oip::ModelInferRequest& request,
                     oip::ModelInferResponse& response) {
    return RunAs<InferJob>(request, response);
  }
  absl::Status Attend(const v1::AttendRequest& request,
                      v1::AttendResponse& response) {
    return RunAs<AttendJob>(request, response);
  }
  absl::Status Refusal(const oip::ModelInferRequest& request) {
    oip::ModelInferResponse response;
    absl::Status status = Infer(request, response);
    EXPECT_FALSE(status.ok()) << request.ShortDebugString();
    return status;
  }
};

// The tensors of the same name, bit by bit.
void ExpectSame(const oip::ModelInferResponse& got,
                const v1::AttendResponse& want) {
  ASSERT_EQ(got.outputs_size(), got.raw_output_contents_size());
  for (int i = 0; i < got.outputs_size(); ++i) {
    const auto* field = FindInferOutput(got.outputs(i).name());
    ASSERT_NE(field, nullptr) << got.outputs(i).name();
    const auto& tensor = static_cast<const v1::Tensor&>(
        want.GetReflection()->GetMessage(want, field));
    EXPECT_EQ(got.raw_output_contents(i), tensor.data()) << field->name();
    EXPECT_EQ(
        std::vector<int64_t>(got.outputs(i).shape().begin(),
                             got.outputs(i).shape().end()),
        std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()))
        << field->name();
  }
}

// All outputs that the model's metadata has, of both.
void AskForAll(const InferModel& model, oip::ModelInferRequest& infer,
               v1::AttendRequest& attend) {
  const auto metadata = DescribeModel(model);
  for (const auto& output : metadata.outputs()) {
    infer.add_outputs()->set_name(output.name());
    attend.add_outputs(OutputOfField(*FindInferOutput(output.name())));
  }
}

class EveryModel : public InferJobTest,
                   public ::testing::WithParamInterface<std::string> {
 protected:
  const InferModel& model() const { return **FindInferModel(GetParam(), ""); }
};

TEST_P(EveryModel, GivesTheBitsOfAttend) {
  constexpr uint64_t kCalls = 8;
  for (uint64_t seed = 0; seed < kCalls; ++seed) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      v1::AttendRequest attend = RandomCallOf(model(), seed, dtype);
      const bool raw = seed % 2 == 0;
      oip::ModelInferRequest infer = InferRequestOf(
          model(), attend, raw ? ContentForm::kRaw : ContentForm::kTyped);
      // Those of any variant may be refused together.
      if (model().member != nullptr) AskForAll(model(), infer, attend);
      v1::AttendResponse want;
      const absl::Status expected = Attend(attend, want);
      ASSERT_TRUE(expected.ok()) << expected;
      oip::ModelInferResponse got;
      const absl::Status status = Infer(infer, got);
      ASSERT_TRUE(status.ok()) << status << infer.ShortDebugString();
      ExpectSame(got, want);
      EXPECT_EQ(got.model_name(), GetParam());
      EXPECT_EQ(got.model_version(), "1");
    }
  }
}

// Where the input of that name is; -1: the call has none.
int IndexOf(const oip::ModelInferRequest& request, const std::string& name) {
  for (int i = 0; i < request.inputs_size(); ++i) {
    if (request.inputs(i).name() == name) return i;
  }
  return -1;
}

// What metadata lists as an input, and a call leaves out, is missed.
TEST_P(EveryModel, NeedsTheInputsThatItsMetadataLists) {
  constexpr uint64_t kCalls = 32;
  const auto metadata = DescribeModel(model());
  for (const auto& needed : metadata.inputs()) {
    std::set<int> ranks;
    std::set<std::string> datatypes;
    for (uint64_t seed = 0; seed < kCalls; ++seed) {
      const v1::AttendRequest attend = RandomCallOf(model(), seed);
      oip::ModelInferRequest infer = InferRequestOf(model(), attend);
      const int left_out = IndexOf(infer, needed.name());
      ASSERT_GE(left_out, 0) << needed.name();
      ranks.insert(infer.inputs(left_out).shape_size());
      datatypes.insert(infer.inputs(left_out).datatype());
      infer.mutable_inputs()->DeleteSubrange(left_out, 1);
      infer.mutable_raw_input_contents()->DeleteSubrange(left_out, 1);
      const absl::Status status = Refusal(infer);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_EQ(FieldOf(status), needed.name()) << status;
    }
    // What metadata says is one of what the model takes; indices may have
    // either width.
    EXPECT_TRUE(ranks.contains(needed.shape_size())) << needed.name();
    if (needed.datatype() == "INT64") datatypes.insert("INT64");
    EXPECT_TRUE(datatypes.contains(needed.datatype())) << needed.name();
  }
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const InferModel& model : InferModels()) names.push_back(model.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryModel, ::testing::ValuesIn(ModelNames()),
                         [](const auto& name) { return name.param; });

TEST_F(InferJobTest, TheReplyHasTheOrderAndTheIdOfTheRequest) {
  oip::ModelInferRequest request = PlainRequest("attention");
  request.set_id("call 17");
  request.set_model_version("1");
  for (const char* name : {"lse", "weights", "output"}) {
    request.add_outputs()->set_name(name);
  }
  oip::ModelInferResponse response;
  const absl::Status status = Infer(request, response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.id(), "call 17");
  ASSERT_EQ(response.outputs_size(), 3);
  EXPECT_EQ(response.outputs(0).name(), "lse");
  EXPECT_EQ(response.outputs(1).name(), "weights");
  EXPECT_EQ(response.outputs(2).name(), "output");
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_EQ(response.raw_output_contents(0).size(), 6 * sizeof(float));
  EXPECT_EQ(response.raw_output_contents(1).size(), 18 * sizeof(float));
  EXPECT_TRUE(response.parameters().contains("kernel"));
  EXPECT_THAT(Log(), AllOf(HasSubstr("method=\"ModelInfer\" code=\"OK\""),
                           HasSubstr("id=\"call 17\"")));
}

TEST_F(InferJobTest, WithoutOutputsTheOutputComesAndNoIdIsMade) {
  oip::ModelInferResponse response;
  ASSERT_TRUE(Infer(PlainRequest("attention"), response).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).name(), "output");
  EXPECT_EQ(response.id(), "");
}

// The tensors of no elements keep their places among the contents.
TEST_F(InferJobTest, AnOutputWithoutElementsIsThere) {
  oip::ModelInferRequest request;
  request.set_model_name("attention");
  AddFloats(request, "q", {1, 1, 0, 2}, {});
  AddFloats(request, "k", {1, 1, 1, 2}, {1, 2});
  AddFloats(request, "v", {1, 1, 1, 2}, {1, 2});
  request.add_outputs()->set_name("lse");
  request.add_outputs()->set_name("output");
  oip::ModelInferResponse response;
  const absl::Status status = Infer(request, response);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_EQ(response.raw_output_contents(0), "");
}

// What KServe's client says of its tensors, and how layouts are said.
TEST_F(InferJobTest, ParametersOfTensorsAreUnderstood) {
  v1::AttendRequest attend;
  oip::ModelInferRequest infer;
  infer.set_model_name("attention");
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const char* name : {"q", "k", "v"}) {
    AddFloats(infer, name, {1, 4, 1, 2}, values);
    auto& parameters = *infer.mutable_inputs()->rbegin()->mutable_parameters();
    parameters["layout"].set_string_param("BSHD");
    parameters["binary_data_size"].set_int64_param(32);
    auto& tensor =
        *static_cast<v1::Tensor*>(attend.GetReflection()->MutableMessage(
            &attend, attend.GetDescriptor()->FindFieldByName(name)));
    tensor.set_dtype(v1::DATA_TYPE_F32);
    for (const int64_t extent : {1, 4, 1, 2}) tensor.add_shape(extent);
    tensor.set_layout(v1::TENSOR_LAYOUT_BSHD);
    tensor.set_data(infer.raw_input_contents(0));
  }
  (*infer.add_outputs()->mutable_parameters())["binary_data"].set_bool_param(
      true);
  infer.mutable_outputs(0)->set_name("output");
  v1::AttendResponse want;
  ASSERT_TRUE(Attend(attend, want).ok());
  oip::ModelInferResponse got;
  const absl::Status status = Infer(infer, got);
  ASSERT_TRUE(status.ok()) << status;
  ExpectSame(got, want);
  EXPECT_EQ(got.outputs(0).parameters().at("layout").string_param(), "BSHD");
}

// Each query sees the keys of its own segment: of those there is one.
TEST_F(InferJobTest, SegmentsMayBeOfTheWidthThatMetadataSays) {
  oip::ModelInferRequest request = PlainRequest("mask_segment");
  const std::vector<int64_t> segments = {7, 8, 9};
  for (const char* name : {"q_segments", "kv_segments"}) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype("INT64");
    input.add_shape(1);
    input.add_shape(3);
    request.add_raw_input_contents(
        std::string(reinterpret_cast<const char*>(segments.data()),
                    segments.size() * sizeof(int64_t)));
  }
  oip::ModelInferResponse response;
  const absl::Status status = Infer(request, response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.raw_output_contents(0), request.raw_input_contents(2));
}

TEST_F(InferJobTest, AnUnknownModelOrVersionIsNotFound) {
  oip::ModelInferRequest request = PlainRequest("resnet");
  absl::Status status = Refusal(request);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"resnet\""), HasSubstr("RepositoryIndex")));
  request = PlainRequest("attention");
  request.set_model_version("2");
  status = Refusal(request);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"2\""), HasSubstr("version 1")));
}

// A deadline that the message brings holds, and no longer one.
TEST_F(InferJobTest, ATimeoutEndsACall) {
  oip::ModelInferRequest request;
  request.set_model_name("attention");
  constexpr int64_t kLength = 256;
  const std::vector<float> values(kLength * 64, 1);
  for (const char* name : {"q", "k", "v"}) {
    AddFloats(request, name, {1, 1, kLength, 64}, values);
  }
  (*request.mutable_parameters())["kernel"].set_string_param("reference");
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  const absl::Status status = Refusal(request);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  (*request.mutable_parameters())["timeout"].set_int64_param(1'000'000'000'000);
  oip::ModelInferResponse response;
  EXPECT_TRUE(Infer(request, response).ok());
}

TEST_F(InferJobTest, AMessageThatIsTooLongIsRefusedWithAnotherWay) {
  oip::ModelInferRequest request = PlainRequest("attention");
  request.set_raw_input_contents(0, std::string(1 << 20, 'x'));
  const absl::Status status = Refusal(request);
  EXPECT_EQ(RefusalOf(status), attn::Refusal::kTooLarge);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("--max-message-bytes"), HasSubstr("AttendStream")));
}

}  // namespace
}  // namespace attn
