// What is said of a request that is not understood or does not fit: one line
// that names the input, output or parameter.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/inference/infer_job.h"
#include "server/rpc/byte_buffer.h"
#include "tests/server/inference/infer_requests.h"
#include "tests/server/rpc/call_fixture.h"
#include "tests/server/rpc/reply_box.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Spoil = std::function<void(oip::ModelInferRequest&)>;

struct Misfit {
  const char* model;
  // What the error names, and a part of what it says.
  const char* field;
  const char* text;
  Spoil spoil;
};

oip::InferParameter& Parameter(oip::ModelInferRequest& request,
                               const char* name) {
  return (*request.mutable_parameters())[name];
}

oip::InferParameter& InputParameter(oip::ModelInferRequest& request,
                                    const char* name) {
  return (*request.mutable_inputs(0)->mutable_parameters())[name];
}

class InferRefusal : public CallFixture {
 protected:
  absl::Status Refused(const oip::ModelInferRequest& request) {
    ReplyBox box;
    grpc::ByteBuffer bytes = ToByteBuffer(request);
    auto job = std::make_shared<InferJob>(context_, Caller(), box.Callback());
    job->Run(bytes);
    return box.Wait();
  }

  void ExpectRefused(const std::vector<Misfit>& misfits) {
    for (const Misfit& misfit : misfits) {
      oip::ModelInferRequest request = PlainRequest(misfit.model);
      misfit.spoil(request);
      const absl::Status status = Refused(request);
      const std::string message(status.message());
      EXPECT_TRUE(absl::IsInvalidArgument(status))
          << misfit.field << ": " << status;
      EXPECT_EQ(FieldOf(status), misfit.field) << message;
      EXPECT_THAT(message, HasSubstr(misfit.text));
      EXPECT_THAT(message, Not(HasSubstr("\n")));
      EXPECT_THAT(message, HasSubstr(", expected "));
      EXPECT_LT(message.size(), 1000U);
    }
  }
};

TEST_F(InferRefusal, InputsThatDoNotFitAreNamed) {
  ExpectRefused({
      {"attention", "inputs[0].name", "\"Q\"",
       [](auto& r) { r.mutable_inputs(0)->set_name("Q"); }},
      {"mask_dense", "inputs[3].name", "v, or qkv; mask",
       [](auto& r) { AddFloats(r, "bias", {1}, {1}); }},
      {"attention", "inputs[1].name", "each input once",
       [](auto& r) { r.mutable_inputs(1)->set_name("q"); }},
      {"attention", "inputs[3].name", "none left out",
       [](auto& r) { AddFloats(r, "inputs[1]", {1}, {1}); }},
      {"attention", "q", "nothing",
       [](auto& r) {
         r.mutable_inputs()->DeleteSubrange(0, 1);
         r.mutable_raw_input_contents()->DeleteSubrange(0, 1);
       }},
      {"attention", "k.datatype", "\"FP8\"",
       [](auto& r) { r.mutable_inputs(1)->set_datatype("FP8"); }},
      {"attention", "k.datatype", "\"BYTES\"",
       [](auto& r) { r.mutable_inputs(1)->set_datatype("BYTES"); }},
      {"attention", "k.datatype", "F64",
       [](auto& r) {
         r.mutable_inputs(1)->set_datatype("FP64");
         r.mutable_raw_input_contents(1)->append(r.raw_input_contents(1));
       }},
      {"attention", "v.shape", "-1",
       [](auto& r) { r.mutable_inputs(2)->set_shape(0, -1); }},
      {"attention", "v.shape", "[1, 2, 4, 3]",
       [](auto& r) {
         r.mutable_inputs(1)->mutable_shape()->SwapElements(2, 3);
       }},
      {"attention", "q.data", "got 92 bytes, expected 96 bytes",
       [](auto& r) { r.mutable_raw_input_contents(0)->resize(92); }},
      {"attention", "raw_input_contents",
       "got 2 contents, expected one for "
       "each of 3 inputs",
       [](auto& r) { r.mutable_raw_input_contents()->RemoveLast(); }},
      {"bias_relative_table", "table", "4 distances",
       [](auto& r) {
         AddFloats(r, "table", {1, 4}, {1, 2, 3, 4});
       }},
      {"score_trilinear", "weight", "weight of shape [3]",
       [](auto& r) {
         AddFloats(r, "weight", {3}, {1, 2, 3});
       }},
      {"score_concat", "concat.v", "concat.v of shape [2, 1]",
       [](auto& r) {
         AddFloats(r, "weight", {8, 2}, std::vector<float>(16));
         AddFloats(r, "concat.v", {2, 1}, {1, 1});
       }},
  });
}

TEST_F(InferRefusal, TypedContentsThatDoNotFitAreNamed) {
  const auto typed = [](oip::ModelInferRequest & r) -> auto& {
    r.clear_raw_input_contents();
    for (auto& input : *r.mutable_inputs()) {
      for (int i = 0; i < 24; ++i) {
        input.mutable_contents()->add_fp32_contents(1);
      }
    }
    return *r.mutable_inputs(0);
  };
  ExpectRefused({
      {"attention", "q.contents", "beside raw_input_contents",
       [](auto& r) {
         r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       }},
      {"attention", "q.contents", "0 elements",
       [](auto& r) { r.clear_raw_input_contents(); }},
      {"attention", "q.contents", "got 25 elements, expected 24",
       [&](auto& r) { typed(r).mutable_contents()->add_fp32_contents(1); }},
      {"attention", "q.contents", "got fp32_contents, expected fp64_contents",
       [&](auto& r) { typed(r).set_datatype("FP64"); }},
      {"attention", "q.contents", "got fp64_contents, expected fp32_contents",
       [&](auto& r) { typed(r).mutable_contents()->add_fp64_contents(1); }},
      {"attention", "q.contents", "typed contents of BF16",
       [&](auto& r) { typed(r).set_datatype("BF16"); }},
      {"attention", "q.contents", "got 128",
       [&](auto& r) {
         auto& input = typed(r);
         input.set_datatype("INT8");
         input.clear_contents();
         for (int i = 0; i < 24; ++i) {
           input.mutable_contents()->add_int_contents(128);
         }
       }},
  });
}

TEST_F(InferRefusal, ParametersOfTensorsThatThereAreNotAreNamed) {
  ExpectRefused({
      {"attention", "q.parameters.layout", "BHSD or BSHD",
       [](auto& r) { InputParameter(r, "layout").set_string_param("BDHS"); }},
      {"attention", "q.parameters.binary_data_size", "got 95, expected 96",
       [](auto& r) {
         InputParameter(r, "binary_data_size").set_int64_param(95);
       }},
      {"attention", "q.parameters.shared_memory_region", "\"region\"",
       [](auto& r) {
         InputParameter(r, "shared_memory_region").set_string_param("region");
       }},
      {"attention", "outputs[0].name", "\"logit\"",
       [](auto& r) { r.add_outputs()->set_name("logit"); }},
      {"attention", "outputs[1].name", "each output once",
       [](auto& r) {
         r.add_outputs()->set_name("lse");
         r.add_outputs()->set_name("lse");
       }},
      {"attention", "output.parameters.classification", "got 3",
       [](auto& r) {
         auto& output = *r.add_outputs();
         output.set_name("output");
         (*output.mutable_parameters())["classification"].set_int64_param(3);
       }},
      {"attention", "outputs", "state",
       [](auto& r) { r.add_outputs()->set_name("state"); }},
  });
}

TEST_F(InferRefusal, ParametersThatThereAreNotAreNamed) {
  const auto set = [](const char* name, const auto& value) {
    return [name, value](oip::ModelInferRequest& r) {
      Parameter(r, name).set_string_param(value);
    };
  };
  ExpectRefused({
      {"attention", "parameters.top_k", "model attention: spec, scale",
       set("top_k", "3")},
      {"sparsifier_top_k", "parameters.K", "k, ties", set("K", "3")},
      {"attention", "parameters.sequence_id", "stateless",
       [](auto& r) { Parameter(r, "sequence_id").set_int64_param(1); }},
      {"attention", "parameters.sequence_start", "stateless",
       [](auto& r) { Parameter(r, "sequence_start").set_bool_param(true); }},
      {"attention", "parameters.triton_x", "nothing",
       [](auto& r) { Parameter(r, "triton_x").Clear(); }},
      {"attention", "parameters.spec", "not understood",
       set("spec", "{\"masks\": [")},
      {"attention", "parameters.spec", "not understood",
       set("spec", "{\"mask\": []}")},
      {"attention", "parameters.spec", "text",
       [](auto& r) { Parameter(r, "spec").set_bool_param(true); }},
      {"score_cosine", "parameters.spec", "model score_cosine sets it",
       set("spec", "{\"score\":{\"dot\":{}}}")},
      {"attention", "spec.masks[0].kind", "nothing",
       set("spec", "{\"masks\":[{}]}")},
      {"attention", "parameters.causal", "true or false", set("causal", "yes")},
      {"attention", "parameters.alignment", "nothing without causal",
       set("alignment", "ALIGNMENT_TOP_LEFT")},
      {"mask_causal", "parameters.alignment", "one of ALIGNMENT_UNSPECIFIED",
       set("alignment", "BOTTOM")},
      {"attention", "parameters.window_left", "got -1",
       set("window_left", "-1")},
      {"attention", "parameters.scale", "a number", set("scale", "one")},
      {"score_distance", "parameters.distance", "one of",
       set("distance", "L2")},
      {"score_additive", "parameters.scale", "another score",
       set("scale", "1")},
      {"attention", "parameters.softcap", "got -1",
       [](auto& r) { Parameter(r, "softcap").set_double_param(-1); }},
      {"attention", "parameters.softcap", "the spec has it already",
       [](auto& r) {
         Parameter(r, "softcap").set_double_param(2);
         Parameter(r, "spec").set_string_param("{\"softcap\":1}");
       }},
      {"attention", "parameters.temperature", "got 0",
       [](auto& r) { Parameter(r, "temperature").set_int64_param(0); }},
      {"attention", "parameters.kv_lengths[0]", "got 4",
       set("kv_lengths", "[4]")},
      {"attention", "parameters.kv_lengths", "the JSON of one value",
       set("kv_lengths", "[3],\"kernel\":\"reference\"")},
      {"attention", "parameters.kernel", "fastest", set("kernel", "fastest")},
      {"attention", "parameters.output_dtype", "\"F32\"",
       set("output_dtype", "F32")},
      {"attention", "parameters.priority", "got 4", set("priority", "4")},
      {"attention", "parameters.timeout", "got -1", set("timeout", "-1")},
      {"sparsifier_top_k", "parameters.k", "got 0",
       [](auto& r) { Parameter(r, "k").set_int64_param(0); }},
      {"sparsifier_top_k", "parameters.k", "an integer", set("k", "few")},
      {"mask_big_bird", "parameters.seed", "0 or more",
       [](auto& r) { Parameter(r, "seed").set_int64_param(-1); }},
      {"mask_strided", "parameters.stride", "got 0", [](auto&) {}},
      {"transform_rotary", "parameters.layout", "ROTARY_LAYOUT", [](auto&) {}},
      {"mask_segment", "q_segments", "got nothing, expected a tensor",
       [](auto&) {}},
      {"bias_dense", "bias", "one of the two",
       [](auto& r) {
         AddFloats(r, "bias", {1}, {0});
         Parameter(r, "bias").set_string_param(
             "{\"layer\":{\"layer\":\"l\",\"tensor\":\"t\"}}");
       }},
      {"bias_dense", "parameters.bias.layer", "no layer \"l\"",
       set("bias", "{\"layer\":{\"layer\":\"l\",\"tensor\":\"t\"}}")},
      {"bias_dense", "parameters.bias.layer.tensor", "got nothing",
       set("bias", "{\"layer\":{\"layer\":\"l\"}}")},
  });
}

// Names from anybody are repeated in one line, and not at any length.
TEST_F(InferRefusal, NamesOfAnyKindAreRepeatedInOneShortLine) {
  const std::string names[] = {std::string(100000, 'x'), "a\nb\r\tc",
                               std::string(100, '\n'), "\xC3\xA4\xC3\xA4"};
  const std::vector<
      std::function<void(oip::ModelInferRequest&, const std::string&)>>
      places = {
          [](auto& r, const auto& n) { r.set_model_name(n); },
          [](auto& r, const auto& n) { r.set_model_version(n); },
          [](auto& r, const auto& n) { r.mutable_inputs(0)->set_name(n); },
          [](auto& r, const auto& n) { r.mutable_inputs(0)->set_datatype(n); },
          [](auto& r, const auto& n) { r.add_outputs()->set_name(n); },
          [](auto& r, const auto& n) { Parameter(r, n.c_str()); },
          [](auto& r, const auto& n) {
            Parameter(r, "scale").set_string_param(n);
          },
          [](auto& r, const auto& n) {
            Parameter(r, "spec").set_string_param(n);
          },
          [](auto& r, const auto& n) { InputParameter(r, n.c_str()); },
      };
  for (const std::string& name : names) {
    for (const auto& place : places) {
      oip::ModelInferRequest request = PlainRequest("attention");
      place(request, name);
      const absl::Status status = Refused(request);
      EXPECT_FALSE(status.ok());
      EXPECT_LT(status.message().size(), 1000U);
      EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
    }
  }
}

// Text that nests as deep as it likes must not take the stack.
TEST_F(InferRefusal, JsonOfAnyDepthIsRefused) {
  constexpr int kDepth = 50000;
  std::string json = "{\"masks\":[";
  for (int i = 0; i < kDepth; ++i) json += "{\"anyOf\":{\"masks\":[";
  oip::ModelInferRequest request = PlainRequest("attention");
  Parameter(request, "spec").set_string_param(json);
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(request)));
}

}  // namespace
}  // namespace attn
