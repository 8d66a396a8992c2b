#include "client/capacity/machine_profile.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json PlainJson() {
  nlohmann::json json = {{"name", "plain"},
                         {"measured", "2026-12-01"},
                         {"cores", 2},
                         {"call_seconds", 1e-4},
                         {"layer_seconds", 0},
                         {"payload_byte_seconds", 1e-9},
                         {"first_byte_seconds", 0},
                         {"prefill_multiply_add_seconds", 1e-11},
                         {"bus_bytes_per_second", 2e10},
                         {"service_variation", 0.1},
                         {"base_bytes", 1},
                         {"header_bytes_in", 2},
                         {"header_bytes_out", 3},
                         {"proxy_call_seconds", 4},
                         {"proxy_byte_seconds", 5}};
  double cost = 1;
  for (const char* dtype : {"f32", "bf16", "f16", "int8"}) {
    json["read"][dtype] = {{"element_seconds", cost},
                           {"multiply_add_seconds", cost + 1}};
    cost += 2;
  }
  return json;
}

std::string Complaint(const nlohmann::json& json) {
  return std::string(
      ParseMachineProfile(json.dump(), "m.json").status().message());
}

TEST(MachineProfileTest, EveryMemberIsRead) {
  const auto profile = ParseMachineProfile(PlainJson().dump(), "m.json");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->name, "plain");
  EXPECT_EQ(profile->measured, "2026-12-01");
  EXPECT_EQ(profile->cores, 2);
  EXPECT_EQ(profile->call_seconds, 1e-4);
  EXPECT_EQ(profile->bus_bytes_per_second, 2e10);
  EXPECT_EQ(profile->header_bytes_in, 2);
  EXPECT_EQ(profile->header_bytes_out, 3);
  EXPECT_EQ(profile->proxy_byte_seconds, 5);
  EXPECT_EQ(profile->read(DType::kF32).element_seconds, 1);
  EXPECT_EQ(profile->read(DType::kBF16).element_seconds, 3);
  EXPECT_EQ(profile->read(DType::kF16).multiply_add_seconds, 6);
  EXPECT_EQ(profile->read(DType::kI8).multiply_add_seconds, 8);
}

TEST(MachineProfileTest, EveryNumberIsNeeded) {
  const nlohmann::json whole = PlainJson();
  for (const auto& [name, value] : whole.items()) {
    if (value.is_string()) continue;
    nlohmann::json json = whole;
    json.erase(name);
    EXPECT_THAT(Complaint(json), HasSubstr(name));
    EXPECT_THAT(Complaint(json), StartsWith("m.json: "));
    if (!value.is_number()) continue;
    for (const nlohmann::json& wrong :
         {nlohmann::json(-1), nlohmann::json("1"), nlohmann::json(1e300),
          nlohmann::json()}) {
      json[name] = wrong;
      EXPECT_THAT(Complaint(json), HasSubstr(name)) << wrong;
    }
  }
}

TEST(MachineProfileTest, WhatIsDividedByIsNotZero) {
  for (const char* name : {"bus_bytes_per_second", "cores", "call_seconds"}) {
    nlohmann::json json = PlainJson();
    json[name] = 0;
    EXPECT_THAT(Complaint(json), HasSubstr(name));
  }
  nlohmann::json json = PlainJson();
  json["cores"] = 1.5;
  EXPECT_THAT(Complaint(json), HasSubstr("cores: got 1.5"));
}

TEST(MachineProfileTest, WhatIsNoProfileIsSaidToBeNone) {
  for (const char* text : {"", "[]", "{", "3"}) {
    EXPECT_THAT(
        std::string(ParseMachineProfile(text, "m.json").status().message()),
        StartsWith("m.json: got no JSON object"));
  }
}

TEST(MachineProfileTest, TheDefaultIsOfAMachineThatWasMeasured) {
  const MachineProfile& machine = DefaultMachine();
  EXPECT_NE(machine.name, "");
  EXPECT_EQ(machine.measured.size(), std::string("2026-12-01").size());
  EXPECT_GE(machine.cores, 1);
}

}  // namespace
}  // namespace attn
