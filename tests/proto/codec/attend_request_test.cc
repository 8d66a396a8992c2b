#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/proto/codec/codec_fixture.h"

namespace attn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Words(const absl::Status& status) {
  return std::string(status.message());
}

TEST(AttendRequest, TensorsArriveAsTheyWereSent) {
  const v1::AttendRequest request = SmallRequest();
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(DimsOf(call->args.q.shape), (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(BytesOf(call->args.q), request.q().data());
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{1, 1, 3, 2}));
  EXPECT_EQ(BytesOf(call->args.k), request.k().data());
  EXPECT_EQ(BytesOf(call->args.v), request.v().data());
  EXPECT_EQ(call->payload_bytes, (8 + 6 + 3) * 4);
  EXPECT_FALSE(call->bshd);
}

TEST(AttendRequest, PayloadsLieOnCacheLines) {
  const auto call = Decode(SmallRequest());
  ASSERT_TRUE(call.ok());
  for (const TensorView* view : {&call->args.q, &call->args.k, &call->args.v}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % kBufferAlignment, 0U);
  }
}

TEST(AttendRequest, ViewsOutliveAMoveOfTheCall) {
  auto call = Decode(SmallRequest());
  ASSERT_TRUE(call.ok());
  const AttendCall moved = *std::move(call);
  EXPECT_EQ(BytesOf(moved.args.q), SmallRequest().q().data());
}

TEST(AttendRequest, EverythingElseArrives) {
  v1::AttendRequest request = SmallRequest();
  request.mutable_spec()->set_softcap(5);
  request.add_outputs(v1::OUTPUT_WEIGHTS);
  request.add_outputs(v1::OUTPUT_ROW_STATISTICS);
  request.set_output_dtype(v1::DATA_TYPE_BF16);
  request.add_q_lengths(1);
  request.add_kv_lengths(2);
  request.set_kernel("reference");
  request.set_request_id("caf\xc3\xa9 1");
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->spec.softcap, 5);
  EXPECT_TRUE(call->wanted.weights);
  EXPECT_TRUE(call->wanted.row_statistics);
  EXPECT_FALSE(call->wanted.output);
  EXPECT_EQ(call->output_dtype, DType::kBF16);
  EXPECT_THAT(call->args.q_lengths, ElementsAre(1));
  EXPECT_THAT(call->args.kv_lengths, ElementsAre(2));
  EXPECT_EQ(call->kernel, "reference");
  EXPECT_EQ(call->request_id, "caf\xc3\xa9 1");
}

TEST(AttendRequest, EveryOutputOfTheSchemaCanBeAskedFor) {
  const auto* type = v1::Output_descriptor();
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() == 0) continue;
    v1::AttendRequest request = SmallRequest();
    request.add_outputs(static_cast<v1::Output>(type->value(i)->number()));
    EXPECT_EQ(BadField(request), "") << type->value(i)->name();
  }
}

TEST(AttendRequest, WithoutOutputsTheOutputAloneIsMeant) {
  const auto call = Decode(SmallRequest());
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->wanted.output);
  EXPECT_FALSE(call->wanted.lse || call->wanted.logits ||
               call->wanted.masked_logits || call->wanted.weights ||
               call->wanted.row_statistics || call->wanted.head_statistics);
}

TEST(AttendRequest, WithoutOutputDTypeItIsThatOfQ) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<double>(v1::DATA_TYPE_F64, {1, 1, 1, 1}, {1}, request.mutable_q());
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->output_dtype, DType::kF64);
}

TEST(AttendRequest, LayoutBshdGivesStridedViews) {
  v1::AttendRequest request = SmallRequest();
  // [B=1, S=2, H=3, D=1]: element (s, h) is 10 s + h.
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 3, 1}, {0, 1, 2, 10, 11, 12},
                   request.mutable_q());
  request.mutable_q()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  request.mutable_k()->set_layout(v1::TENSOR_LAYOUT_BHSD);
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  const TensorView& q = call->args.q;
  EXPECT_TRUE(call->bshd);
  EXPECT_EQ(DimsOf(q.shape), (std::vector<int64_t>{1, 3, 2, 1}));
  const auto* values = reinterpret_cast<const float*>(q.data);
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t s = 0; s < 2; ++s) {
      EXPECT_EQ(values[h * q.strides[1] + s * q.strides[2]],
                static_cast<float>(10 * s + h));
    }
  }
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{1, 1, 3, 2}));
}

TEST(AttendRequest, OnlyTheLayoutOfQDecidesThatOfTheOutput) {
  v1::AttendRequest request = SmallRequest();
  request.mutable_k()->set_layout(v1::TENSOR_LAYOUT_BSHD);
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok());
  EXPECT_FALSE(call->bshd);
  EXPECT_EQ(DimsOf(call->args.k.shape), (std::vector<int64_t>{1, 3, 1, 2}));
}

TEST(AttendRequest, ATensorWithoutElementsIsPresent) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 0, 2}, {}, request.mutable_k());
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_NE(call->args.k.data, nullptr);
  EXPECT_EQ(call->args.k.shape.element_count(), 0);
}

TEST(AttendRequest, InputsKeepTheirOrder) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<uint8_t>(v1::DATA_TYPE_BOOL, {3}, {1, 0, 1}, request.add_inputs());
  SetTensor<double>(v1::DATA_TYPE_F64, {}, {0.5}, request.add_inputs());
  const auto call = Decode(request);
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->args.inputs.size(), 2U);
  EXPECT_EQ(BytesOf(call->args.inputs[0]), std::string("\1\0\1", 3));
  EXPECT_EQ(call->args.inputs[1].dtype, DType::kF64);
  EXPECT_EQ(call->args.inputs[1].shape.rank(), 0);
}

// A request that is wrong in one way, and the field that the error names.
struct BadRequest {
  const char* what;
  const char* field;
  std::function<void(v1::AttendRequest&)> spoil;
};

void PrintTo(const BadRequest& bad, std::ostream* os) { *os << bad.what; }

v1::Tensor* AddInput(v1::AttendRequest& r) {
  SetTensor<uint8_t>(v1::DATA_TYPE_BOOL, {3}, {1, 0, 1}, r.add_inputs());
  return r.mutable_inputs(r.inputs_size() - 1);
}

using R = v1::AttendRequest;

std::vector<BadRequest> BadSignatures() {
  return {
      {"NoQ", "q", [](R& r) { r.clear_q(); }},
      {"NoK", "k", [](R& r) { r.clear_k(); }},
      {"NoV", "v", [](R& r) { r.clear_v(); }},
      {"NoDType", "q.dtype", [](R& r) { r.mutable_q()->clear_dtype(); }},
      {"UnknownDType", "v.dtype",
       [](R& r) { r.mutable_v()->set_dtype(static_cast<v1::DataType>(9)); }},
      {"NegativeExtent", "k.shape",
       [](R& r) { r.mutable_k()->set_shape(2, -3); }},
      {"OverflowingShape", "k.shape",
       [](R& r) { r.mutable_k()->set_shape(2, int64_t{1} << 61); }},
      {"ShapeWhoseProductWraps", "q.shape",
       [](R& r) {
         for (int i = 0; i < 4; ++i) r.mutable_q()->set_shape(i, 1 << 16);
         r.mutable_q()->clear_data();
       }},
      {"HugeExtentsBesideAZero", "k.shape",
       [](R& r) {
         r.mutable_k()->set_shape(0, int64_t{1} << 62);
         r.mutable_k()->set_shape(1, int64_t{1} << 62);
         r.mutable_k()->set_shape(2, 0);
         r.mutable_k()->clear_data();
       }},
      {"TooManyAxes", "inputs[0].shape",
       [](R& r) { AddInput(r)->mutable_shape()->Resize(7, 1); }},
  };
}

std::vector<BadRequest> BadPayloads() {
  return {
      {"ShortData", "q.data",
       [](R& r) { r.mutable_q()->mutable_data()->pop_back(); }},
      {"LongData", "v.data",
       [](R& r) { r.mutable_v()->mutable_data()->push_back('x'); }},
      {"BoolOfTwo", "inputs[1].data",
       [](R& r) {
         AddInput(r);
         AddInput(r)->mutable_data()->back() = 2;
       }},
      {"NoData", "k.data", [](R& r) { r.mutable_k()->clear_data(); }},
      {"DataOfAnEmptyShape", "k.data",
       [](R& r) { r.mutable_k()->set_shape(2, 0); }},
  };
}

std::vector<BadRequest> BadLayouts() {
  return {
      {"ThreeAxesWithALayout", "q.shape",
       [](R& r) {
         SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 1}, {1}, r.mutable_q());
         r.mutable_q()->set_layout(v1::TENSOR_LAYOUT_BHSD);
       }},
      {"UnknownLayout", "v.layout",
       [](R& r) {
         r.mutable_v()->set_layout(static_cast<v1::TensorLayout>(3));
       }},
      {"InputWithALayout", "inputs[1].layout",
       [](R& r) {
         AddInput(r);
         AddInput(r)->set_layout(v1::TENSOR_LAYOUT_BSHD);
       }},
  };
}

std::vector<BadRequest> BadMetadata() {
  return {
      {"UnknownOutput", "outputs[1]",
       [](R& r) {
         r.add_outputs(v1::OUTPUT_LSE);
         r.add_outputs(static_cast<v1::Output>(99));
       }},
      {"UnspecifiedOutput", "outputs[0]",
       [](R& r) { r.add_outputs(v1::OUTPUT_UNSPECIFIED); }},
      {"UnknownOutputDType", "output_dtype",
       [](R& r) { r.set_output_dtype(static_cast<v1::DataType>(100)); }},
      {"LongRequestId", "request_id",
       [](R& r) { r.set_request_id(std::string(129, 'x')); }},
      {"RequestIdWithANewline", "request_id",
       [](R& r) { r.set_request_id("a\nb"); }},
      {"RequestIdWithANul", "request_id",
       [](R& r) { r.set_request_id(std::string("a\0b", 3)); }},
      {"RequestIdWithADel", "request_id",
       [](R& r) { r.set_request_id("\x7f"); }},
      {"UnsetMask", "spec.masks[0].kind",
       [](R& r) { r.mutable_spec()->add_masks(); }},
  };
}

class BadAttendRequest : public testing::TestWithParam<BadRequest> {};

TEST_P(BadAttendRequest, IsRefusedByTheNameOfItsField) {
  v1::AttendRequest request = SmallRequest();
  GetParam().spoil(request);
  const absl::Status status = Decode(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status).value_or(""), GetParam().field) << status;
}

std::string NameOf(const testing::TestParamInfo<BadRequest>& bad) {
  return bad.param.what;
}

INSTANTIATE_TEST_SUITE_P(Signatures, BadAttendRequest,
                         testing::ValuesIn(BadSignatures()), NameOf);
INSTANTIATE_TEST_SUITE_P(Payloads, BadAttendRequest,
                         testing::ValuesIn(BadPayloads()), NameOf);
INSTANTIATE_TEST_SUITE_P(Layouts, BadAttendRequest,
                         testing::ValuesIn(BadLayouts()), NameOf);
INSTANTIATE_TEST_SUITE_P(Metadata, BadAttendRequest,
                         testing::ValuesIn(BadMetadata()), NameOf);

TEST(AttendRequest, ALengthErrorSaysWhatCameAndWhatWasExpected) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<float>(v1::DATA_TYPE_F32, {2, 2}, {1, 2, 3}, request.mutable_q());
  EXPECT_EQ(Words(Decode(request).status()),
            "q.data: got 12 bytes, expected 16 bytes for F32 [2, 2]");
}

TEST(AttendRequest, TheFirstBadByteOfABoolTensorIsNamed) {
  v1::AttendRequest request = SmallRequest();
  SetTensor<uint8_t>(v1::DATA_TYPE_BOOL, {4}, {1, 0, 255, 2},
                     request.add_inputs());
  EXPECT_THAT(Words(Decode(request).status()),
              HasSubstr("a byte of 255 at offset 2"));
}

TEST(AttendRequest, ARequestIdOfTheLargestSizePasses) {
  v1::AttendRequest request = SmallRequest();
  request.set_request_id(std::string(128, 'x'));
  EXPECT_EQ(BadField(request), "");
}

}  // namespace
}  // namespace attn
