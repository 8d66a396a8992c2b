#include "client/load/reference_output.h"

#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/oracle.h"

namespace attn {
namespace {

CallProfile Profile(const char* shape, DType dtype) {
  return {.shape = ParseCallShape(shape).value(),
          .dtype = dtype,
          .causal = true,
          .seed = 9};
}

std::vector<double> Doubles(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    values.push_back(tensor.At(i));
  }
  return values;
}

oracle::Case CaseOf(const CallProfile& profile, const LoadPayload& payload) {
  oracle::Case call;
  call.batch = profile.shape.batch;
  call.q_heads = profile.shape.q_heads;
  call.kv_heads = profile.shape.kv_heads;
  call.q_length = profile.shape.q_length;
  call.kv_length = profile.shape.kv_length;
  call.qk_dim = profile.shape.k_dim;
  call.v_dim = profile.shape.v_dim;
  call.q = Doubles(payload.q);
  call.k = Doubles(payload.k);
  call.v = Doubles(payload.v);
  call.bands = {{.left = {}, .right = 0, .bottom_right = true}};
  return call;
}

ResponseTensor ResponseOf(const HostTensor& tensor) {
  ResponseTensor response;
  response.dtype = tensor.dtype();
  response.shape = tensor.shape();
  response.data = AlignedBuffer(tensor.byte_count());
  std::memcpy(response.data.data(), tensor.data(), tensor.byte_count());
  return response;
}

TEST(ReferenceOutput, EqualsTheDefinitionForEveryDtype) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    const CallProfile profile = Profile("2,4,2,3,7,8,5", dtype);
    const auto payloads = MakePayloads(profile, 2).value();
    const auto outputs = ReferenceOutputs(profile, payloads).value();
    ASSERT_EQ(outputs.size(), 2u);
    for (size_t p = 0; p < 2; ++p) {
      const std::vector<double> want =
          oracle::Attend(CaseOf(profile, payloads[p])).output;
      const std::vector<double> got = Doubles(outputs[p]);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], 1e-12) << Name(dtype) << " " << i;
      }
    }
  }
}

TEST(ReferenceOutput, HeadsThatDoNotDivideAreRefusedByName) {
  const CallProfile profile = Profile("1,3,2,4,4,8", DType::kF32);
  const auto payloads = MakePayloads(profile, 1).value();
  EXPECT_EQ(ReferenceOutputs(profile, payloads).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class CompareOutputTest : public ::testing::TestWithParam<DType> {
 protected:
  CompareOutputTest() : expected_(DType::kF64, {1, 2, 3, 4}) {
    for (int64_t i = 0; i < expected_.element_count(); ++i) {
      expected_.Set(i, 0.3 + 0.1 * static_cast<double>(i));
    }
  }

  HostTensor expected_;
};

TEST_P(CompareOutputTest, RoundedToItsDtypeAgrees) {
  const HostTensor rounded = expected_.To(GetParam());
  EXPECT_TRUE(CompareOutput(ResponseOf(rounded), expected_).ok());
}

TEST_P(CompareOutputTest, OneElementThatIsThreePercentOffIsFound) {
  HostTensor wrong = expected_.To(GetParam());
  wrong.Set(7, expected_.At(7) * 1.03);
  const absl::Status status = CompareOutput(ResponseOf(wrong), expected_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(status.message()).find("element 7"), std::string::npos);
}

TEST_P(CompareOutputTest, NaNIsFound) {
  HostTensor wrong = expected_.To(GetParam());
  wrong.Set(0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(CompareOutput(ResponseOf(wrong), expected_).ok());
}

INSTANTIATE_TEST_SUITE_P(DTypes, CompareOutputTest,
                         ::testing::Values(DType::kF32, DType::kF16,
                                           DType::kBF16, DType::kF64),
                         [](const auto& p) {
                           return std::string(Name(p.param));
                         });

TEST(CompareOutput, AnotherShapeOfAsManyElementsIsFound) {
  const HostTensor expected(DType::kF64, {1, 2, 3, 4});
  const HostTensor other(DType::kF32, {1, 3, 2, 4});
  EXPECT_FALSE(CompareOutput(ResponseOf(other), expected).ok());
}

}  // namespace
}  // namespace attn
