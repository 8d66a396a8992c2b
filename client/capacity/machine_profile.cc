#include "client/capacity/machine_profile.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

constexpr char kDefaultMachine[] =
#include "client/capacity/default_machine.inc"
    ;

struct NumberField {
  const char* name;
  double MachineProfile::*value;
  // Zero is no cost, but no rate either.
  bool positive;
};

constexpr NumberField kNumbers[] = {
    {"call_seconds", &MachineProfile::call_seconds, true},
    {"layer_seconds", &MachineProfile::layer_seconds, false},
    {"payload_byte_seconds", &MachineProfile::payload_byte_seconds, false},
    {"first_byte_seconds", &MachineProfile::first_byte_seconds, false},
    {"prefill_multiply_add_seconds",
     &MachineProfile::prefill_multiply_add_seconds, true},
    {"bus_bytes_per_second", &MachineProfile::bus_bytes_per_second, true},
    {"service_variation", &MachineProfile::service_variation, false},
    {"base_bytes", &MachineProfile::base_bytes, false},
    {"header_bytes_in", &MachineProfile::header_bytes_in, false},
    {"header_bytes_out", &MachineProfile::header_bytes_out, false},
    {"proxy_call_seconds", &MachineProfile::proxy_call_seconds, true},
    {"proxy_byte_seconds", &MachineProfile::proxy_byte_seconds, false},
};

struct ReadField {
  const char* name;
  ReadCost MachineProfile::*cost;
};

constexpr ReadField kReads[] = {{"f32", &MachineProfile::f32},
                                {"bf16", &MachineProfile::bf16},
                                {"f16", &MachineProfile::f16},
                                {"int8", &MachineProfile::i8}};

// So that no sum of products of what a user may ask for is infinite.
constexpr double kMostOfAFigure = 1e15;

absl::StatusOr<double> NumberOf(const nlohmann::json& object,
                                const std::string& name, bool positive,
                                const std::string& where) {
  const std::string field = where + name;
  if (!object.contains(name)) {
    return FieldError(field, "nothing", "a number");
  }
  const nlohmann::json& member = object[name];
  const char* expected =
      positive ? "a number above 0, up to 1e15" : "a number from 0 to 1e15";
  if (!member.is_number()) return FieldError(field, member.dump(), expected);
  const double value = member.get<double>();
  if (!(value >= 0) || value > kMostOfAFigure || (positive && value == 0)) {
    return FieldError(field, member.dump(), expected);
  }
  return value;
}

absl::Status ReadCosts(const nlohmann::json& json, const std::string& where,
                       MachineProfile& profile) {
  for (const ReadField& field : kReads) {
    if (!json.contains("read") || !json["read"].is_object() ||
        !json["read"].contains(field.name) ||
        !json["read"][field.name].is_object()) {
      return FieldError(absl::StrCat(where, "read.", field.name), "nothing",
                        "an object of costs");
    }
    const nlohmann::json& object = json["read"][field.name];
    const std::string in = absl::StrCat(where, "read.", field.name, ".");
    ReadCost& cost = profile.*field.cost;
    const auto element = NumberOf(object, "element_seconds", false, in);
    if (!element.ok()) return element.status();
    const auto product = NumberOf(object, "multiply_add_seconds", false, in);
    if (!product.ok()) return product.status();
    cost = {*element, *product};
  }
  return absl::OkStatus();
}

std::string TextOf(const nlohmann::json& json, const char* name) {
  const auto member = json.find(name);
  return member != json.end() && member->is_string()
             ? member->get<std::string>()
             : "";
}

}  // namespace

const ReadCost& MachineProfile::read(DType dtype) const {
  switch (dtype) {
    case DType::kBF16:
      return bf16;
    case DType::kF16:
      return f16;
    case DType::kI8:
      return i8;
    default:
      return f32;
  }
}

absl::StatusOr<MachineProfile> ParseMachineProfile(const std::string& text,
                                                   const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return FieldError(path, "no JSON object",
                      "a profile as tests/bench/capacity.sh writes it");
  }
  const std::string where = path + ": ";
  MachineProfile profile;
  profile.name = TextOf(json, "name");
  profile.measured = TextOf(json, "measured");
  constexpr double kMostCores = 4096;
  const auto cores = NumberOf(json, "cores", true, where);
  if (!cores.ok()) return cores.status();
  if (*cores > kMostCores || *cores != std::floor(*cores)) {
    return FieldError(where + "cores", absl::StrCat(*cores),
                      "a whole number from 1 to 4096");
  }
  profile.cores = static_cast<int>(*cores);
  for (const NumberField& field : kNumbers) {
    const auto value = NumberOf(json, field.name, field.positive, where);
    if (!value.ok()) return value.status();
    profile.*field.value = *value;
  }
  const absl::Status costs = ReadCosts(json, where, profile);
  if (!costs.ok()) return costs;
  return profile;
}

const MachineProfile& DefaultMachine() {
  static const MachineProfile kMachine =
      ParseMachineProfile(kDefaultMachine, "machines/epyc_2c.json").value();
  return kMachine;
}

}  // namespace attn
