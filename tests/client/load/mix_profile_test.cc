#include "client/load/mix_profile.h"

#include <variant>

#include "client/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<CallClass>> Parse(const std::string& text) {
  return ParseMixProfile(text, "mix.json", 5);
}

TEST(MixProfile, AClassHasDefaultsForAllButNameAndShape) {
  const auto classes =
      Parse(R"([{"name": "tiny", "shape": [1, 4, 2, 16, 16, 32]}])").value();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "tiny");
  EXPECT_EQ(classes[0].weight, 1);
  EXPECT_EQ(classes[0].payloads, 4);
  EXPECT_EQ(classes[0].deadline, absl::ZeroDuration());
  EXPECT_EQ(classes[0].call.kind, CallKind::kAttend);
  EXPECT_EQ(classes[0].call.priority, v1::PRIORITY_NORMAL);
  EXPECT_EQ(classes[0].call.seed, 5u);
  EXPECT_EQ(classes[0].call.ToString(), "1,4,2,16,16,32 F32");
}

TEST(MixProfile, EveryFieldIsRead) {
  const auto classes = Parse(R"([
    {"name": "a", "shape": "1,4,4,8,8,16,24", "weight": 2.5, "dtype": "bf16",
     "causal": true, "priority": "high", "payloads": 7, "deadline": "500ms",
     "spec": {"softcap": 30}},
    {"name": "b", "kind": "inspect", "shape": [1, 1, 1, 8, 8, 8],
     "views": ["logits", "weights"], "tile": [4, 2], "priority": "low"},
    {"name": "c", "kind": "inspect", "shape": [1, 1, 1, 8, 8, 8],
     "deadline": 2}])")
                           .value();
  ASSERT_EQ(classes.size(), 3u);
  const CallClass& a = classes[0];
  EXPECT_EQ(a.weight, 2.5);
  EXPECT_EQ(a.call.shape.v_dim, 24);
  EXPECT_EQ(a.call.dtype, DType::kBF16);
  EXPECT_EQ(a.call.priority, v1::PRIORITY_HIGH);
  EXPECT_EQ(a.payloads, 7);
  EXPECT_EQ(a.deadline, absl::Milliseconds(500));
  EXPECT_EQ(a.call.Spec().softcap, 30);
  EXPECT_EQ(a.call.Spec().masks.size(), 1u);
  const CallClass& b = classes[1];
  EXPECT_EQ(b.call.kind, CallKind::kInspect);
  EXPECT_EQ(b.call.priority, v1::PRIORITY_LOW);
  EXPECT_TRUE(b.call.question.views.logits);
  EXPECT_TRUE(b.call.question.views.weights);
  EXPECT_EQ(b.call.question.tiles->query_tile(), 4);
  EXPECT_EQ(b.call.question.tiles->key_tile(), 2);
  // Without views: the weights.
  EXPECT_TRUE(classes[2].call.question.views.weights);
  EXPECT_EQ(classes[2].deadline, absl::Seconds(2));
  // Each class has tensors of its own.
  EXPECT_NE(classes[1].call.seed, classes[2].call.seed);
}

TEST(MixProfile, AClassOfSessionsHasFieldsOfItsOwn) {
  const auto classes = Parse(R"([
    {"name": "a", "kind": "session", "shape": [1, 8, 2, 1, 512, 64],
     "sessions": 64, "layers": 3, "kv_dtype": "int8", "chunk": 128,
     "shared": 256, "session_steps": 40, "stream": true, "causal": true},
    {"name": "b", "kind": "session", "shape": [1, 8, 2, 1, 512, 64]}])")
                           .value();
  const SessionProfile& a = classes.at(0).call.sessions;
  EXPECT_EQ(classes[0].call.kind, CallKind::kSession);
  EXPECT_EQ(a.sessions, 64);
  EXPECT_EQ(a.layers, 3);
  EXPECT_EQ(a.kv_dtype, DType::kI8);
  EXPECT_EQ(a.chunk, 128);
  EXPECT_EQ(a.shared, 256);
  EXPECT_EQ(a.steps, 40);
  EXPECT_TRUE(a.stream);
  EXPECT_EQ(classes[0].call.ToString(),
            "64 sessions of 1,8,2,1,512,64 F32 causal, 3 layers, kept as I8, "
            "256 tokens shared, 40 steps each, streamed");
  const SessionProfile& b = classes.at(1).call.sessions;
  EXPECT_EQ(b.sessions, 1);
  EXPECT_EQ(b.layers, 1);
  EXPECT_EQ(b.kv_dtype, DType::kF32);
  EXPECT_EQ(b.shared, 0);
  EXPECT_EQ(b.steps, 0);
  EXPECT_FALSE(b.stream);
  EXPECT_EQ(classes[1].call.ToString(), "1 session of 1,8,2,1,512,64 F32");
}

struct BadProfile {
  const char* text;
  // What the error must name.
  const char* names;
};

void PrintTo(const BadProfile& bad, std::ostream* out) { *out << bad.text; }

class BadProfileTest : public ::testing::TestWithParam<BadProfile> {};

TEST_P(BadProfileTest, IsRefusedByFileAndField) {
  const auto status = Parse(GetParam().text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("mix.json"));
  EXPECT_THAT(message, HasSubstr(GetParam().names));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// A class with one more field.
#define WITH(field) R"([{"name":"a","shape":[1,1,1,1,1,1],)" field "}]"

INSTANTIATE_TEST_SUITE_P(
    Profiles, BadProfileTest,
    ::testing::Values(
        BadProfile{"", "not valid JSON"}, BadProfile{"{}", "a list"},
        BadProfile{"[]", "1 to 16 classes"}, BadProfile{"[1]", "[0]"},
        BadProfile{R"([{"shape":[1,1,1,1,1,1]}])", "[0].name"},
        BadProfile{R"([{"name":"a"}])", "[0].shape"},
        BadProfile{R"([{"name":"","shape":[1,1,1,1,1,1]}])", "[0].name"},
        BadProfile{R"([{"name":"total","shape":[1,1,1,1,1,1]}])", "[0].name"},
        BadProfile{R"([{"name":"a b","shape":[1,1,1,1,1,1]}])", "[0].name"},
        BadProfile{R"([{"name":"a","shape":[1,1,1]}])", "[0].shape"},
        BadProfile{R"([{"name":"a","shape":[1,1,1,1,1,"x"]}])", "[0].shape"},
        BadProfile{R"([{"name":"a","shape":[1,1,1,1,1,0]}])", "[0].shape"},
        BadProfile{R"([{"name":"a","shape":[1,1,1,1,1,1]},
                       {"name":"a","shape":[1,1,1,1,1,1]}])",
                   "[1].name"},
        BadProfile{WITH(R"("wieght":1)"), "[0].wieght"},
        BadProfile{WITH(R"("weight":0)"), "[0].weight"},
        BadProfile{WITH(R"("weight":-1)"), "[0].weight"},
        BadProfile{WITH(R"("weight":"1")"), "[0].weight"},
        BadProfile{WITH(R"("weight":1e300)"), "[0].weight"},
        BadProfile{WITH(R"("weight":1,"weight":2)"), "twice"},
        BadProfile{WITH(R"("dtype":"i8")"), "[0].dtype"},
        BadProfile{WITH(R"("dtype":3)"), "[0].dtype"},
        BadProfile{WITH(R"("causal":1)"), "[0].causal"},
        BadProfile{WITH(R"("kind":"backward")"), "[0].kind"},
        BadProfile{WITH(R"("priority":"urgent")"), "[0].priority"},
        BadProfile{WITH(R"("payloads":0)"), "[0].payloads"},
        BadProfile{WITH(R"("payloads":2.5)"), "[0].payloads"},
        BadProfile{WITH(R"("payloads":10001)"), "[0].payloads"},
        BadProfile{WITH(R"("deadline":"soon")"), "[0].deadline"},
        BadProfile{WITH(R"("deadline":"-1s")"), "[0].deadline"},
        BadProfile{WITH(R"("spec":[])"), "[0].spec"},
        BadProfile{WITH(R"("spec":{"softcup":1})"), "[0].spec"},
        BadProfile{WITH(R"("views":["weights"])"), "[0].views"},
        BadProfile{WITH(R"("tile":[1,1])"), "[0].tile"},
        BadProfile{WITH(R"("sessions":2)"), "[0].sessions"},
        BadProfile{WITH(R"("kind":"inspect","stream":true)"), "[0].stream"},
        BadProfile{WITH(R"("kind":"session","views":["weights"])"),
                   "[0].views"},
        BadProfile{WITH(R"("kind":"session","sessions":0)"), "[0].sessions"},
        BadProfile{WITH(R"("kind":"session","sessions":10001)"),
                   "[0].sessions"},
        BadProfile{WITH(R"("kind":"session","layers":1025)"), "[0].layers"},
        BadProfile{WITH(R"("kind":"session","kv_dtype":"f64")"),
                   "[0].kv_dtype"},
        BadProfile{WITH(R"("kind":"session","kv_dtype":8)"), "[0].kv_dtype"},
        BadProfile{WITH(R"("kind":"session","chunk":0)"), "[0].chunk"},
        BadProfile{WITH(R"("kind":"session","shared":2)"), "[0].shared"},
        BadProfile{WITH(R"("kind":"session","session_steps":-1)"),
                   "[0].session_steps"},
        BadProfile{WITH(R"("kind":"session","stream":"yes")"), "[0].stream"},
        BadProfile{WITH(R"("kind":"session","dtype":"f64")"), "[0].dtype"},
        BadProfile{R"([{"name":"a","kind":"session","shape":[2,1,1,1,1,1]}])",
                   "[0].shape"},
        BadProfile{WITH(R"("kind":"inspect","views":[])"), "[0].views"},
        BadProfile{WITH(R"("kind":"inspect","views":["w"])"), "[0].views"},
        BadProfile{WITH(R"("kind":"inspect","views":["gradient_weight"])"),
                   "[0].views"},
        BadProfile{WITH(R"("kind":"inspect","tile":[0,1])"), "[0].tile"},
        BadProfile{WITH(R"("kind":"inspect","tile":[1])"), "[0].tile"}));

TEST(MixProfile, MoreClassesThanAllowedAreRefused) {
  std::string text;
  for (size_t i = 0; i <= kMostClasses; ++i) {
    text += (i == 0 ? "[" : ",") + std::string(R"({"name":"c)") +
            std::to_string(i) + R"(","shape":[1,1,1,1,1,1]})";
  }
  EXPECT_THAT(std::string(Parse(text + "]").status().message()),
              HasSubstr("1 to 16 classes"));
}

TEST(MixProfile, TheReadyProfilesCanBeRead) {
  for (const char* name :
       {"mixed.json", "serving.json", "tenants.json", "sessions.json"}) {
    const std::string path =
        std::string(ATTN_SOURCE_DIR "/client/load/profiles/") + name;
    const auto text = ReadFile(path, 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto classes = ParseMixProfile(*text, path, 1);
    ASSERT_TRUE(classes.ok()) << classes.status();
    EXPECT_FALSE(classes->empty());
  }
}

}  // namespace
}  // namespace attn
