#include "client/load/mix_profile.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/io/json_tensor.h"
#include "client/library/float_dtype.h"
#include "client/library/inspection.h"
#include "client/library/spec_json.h"
#include "client/load/time_text.h"
#include "engine/core/field_error.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using ProfileJson = nlohmann::json;

absl::Status Wrong(const std::string& field, const ProfileJson& value,
                   absl::string_view expected) {
  constexpr size_t kLongestQuote = 60;
  // Of what is no UTF-8 in it, something that is.
  std::string quote =
      value.dump(-1, ' ', true, ProfileJson::error_handler_t::replace);
  if (quote.size() > kLongestQuote) {
    quote = absl::StrCat(quote.substr(0, kLongestQuote), "...");
  }
  return FieldError(field, quote, expected);
}

absl::Status ReadName(const ProfileJson& value, const std::string& field,
                      CallClass& out) {
  constexpr size_t kLongestName = 40;
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  bool prints = !name.empty() && name.size() <= kLongestName;
  for (const char c : name) prints = prints && c > ' ' && c <= '~';
  if (!prints || name == "total") {
    return Wrong(field, value,
                 "1 to 40 ASCII characters without blanks, not \"total\"");
  }
  out.name = name;
  return absl::OkStatus();
}

absl::Status ReadWeight(const ProfileJson& value, const std::string& field,
                        CallClass& out) {
  constexpr double kMost = 1e9;
  const double weight = value.is_number() ? value.get<double>() : 0;
  if (!(weight > 0 && weight <= kMost)) {
    return Wrong(field, value, "a number > 0, at most 1e9");
  }
  out.weight = weight;
  return absl::OkStatus();
}

// [1, 4, 4, 16, 16, 32], or as --shape takes it: "1,4,4,16,16,32".
absl::Status ReadShape(const ProfileJson& value, const std::string& field,
                       CallClass& out) {
  std::string text;
  if (value.is_string()) text = value.get<std::string>();
  if (value.is_array()) {
    text = absl::StrJoin(value, ",",
                         [](std::string* all, const ProfileJson& extent) {
                           absl::StrAppend(all, extent.dump());
                         });
  }
  const auto shape = ParseCallShape(text);
  if (!shape.ok()) {
    return Wrong(field, value,
                 "[B, Hq, Hkv, Sq, Sk, D] or [B, Hq, Hkv, Sq, Sk, D, Dv], "
                 "integers > 0");
  }
  out.call.shape = *shape;
  return absl::OkStatus();
}

absl::Status ReadDType(const ProfileJson& value, const std::string& field,
                       CallClass& out) {
  const auto dtype = ParseFloatDType(
      value.is_string() ? value.get<std::string>() : value.dump(), field);
  if (!dtype.ok()) return dtype.status();
  out.call.dtype = *dtype;
  return absl::OkStatus();
}

absl::Status ReadCausal(const ProfileJson& value, const std::string& field,
                        CallClass& out) {
  if (!value.is_boolean()) return Wrong(field, value, "true or false");
  out.call.causal = value.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadKind(const ProfileJson& value, const std::string& field,
                      CallClass& out) {
  if (value != "attend" && value != "inspect" && value != "session") {
    return Wrong(field, value, "\"attend\", \"inspect\" or \"session\"");
  }
  out.call.kind = value == "attend"    ? CallKind::kAttend
                  : value == "inspect" ? CallKind::kInspect
                                       : CallKind::kSession;
  return absl::OkStatus();
}

absl::Status ReadPriority(const ProfileJson& value, const std::string& field,
                          CallClass& out) {
  if (value != "high" && value != "normal" && value != "low") {
    return Wrong(field, value, "\"high\", \"normal\" or \"low\"");
  }
  out.call.priority = value == "high"  ? v1::PRIORITY_HIGH
                      : value == "low" ? v1::PRIORITY_LOW
                                       : v1::PRIORITY_NORMAL;
  return absl::OkStatus();
}

absl::Status ReadPayloads(const ProfileJson& value, const std::string& field,
                          CallClass& out) {
  if (!value.is_number_integer() || value < 1 || value > kMostPayloads) {
    return Wrong(field, value,
                 absl::StrCat("an integer from 1 to ", kMostPayloads));
  }
  out.payloads = value.get<int>();
  return absl::OkStatus();
}

absl::Status ReadDeadline(const ProfileJson& value, const std::string& field,
                          CallClass& out) {
  const auto deadline =
      ParseLength(value.is_string() ? value.get<std::string>() : value.dump(),
                  field, absl::Milliseconds(1));
  if (!deadline.ok()) return deadline.status();
  out.deadline = *deadline;
  return absl::OkStatus();
}

absl::Status ReadSpecField(const ProfileJson& value, const std::string& field,
                           CallClass& out) {
  if (!value.is_object()) {
    return Wrong(field, value, "an attention.v1.AttentionSpec as an object");
  }
  auto spec = ParseSpecJson(
      value.dump(-1, ' ', true, ProfileJson::error_handler_t::replace), field);
  if (!spec.ok()) return spec.status();
  out.call.stages = *std::move(spec);
  return absl::OkStatus();
}

absl::Status ReadViews(const ProfileJson& value, const std::string& field,
                       CallClass& out) {
  const absl::Status wrong =
      Wrong(field, value,
            absl::StrCat("a list of ", absl::StrJoin(ViewNames(), ", "),
                         "; not gradient_weight, which takes a cotangent"));
  if (!value.is_array() || value.empty()) return wrong;
  for (const ProfileJson& name : value) {
    if (!name.is_string() || name == "gradient_weight" ||
        !WantView(name.get<std::string>(), out.call.question.views).ok()) {
      return wrong;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTile(const ProfileJson& value, const std::string& field,
                      CallClass& out) {
  bool good = value.is_array() && value.size() == 2;
  if (good) {
    for (const ProfileJson& extent : value) {
      good = good && extent.is_number_integer() && extent > 0;
    }
  }
  if (!good) return Wrong(field, value, "[queries, keys], integers > 0");
  v1::InspectTiles tiles;
  tiles.set_query_tile(value[0].get<int64_t>());
  tiles.set_key_tile(value[1].get<int64_t>());
  tiles.set_pooling(v1::POOLING_MEAN);
  out.call.question.tiles = tiles;
  return absl::OkStatus();
}

// An integer from `least` to `most`, into `out`.
template <typename Integer>
absl::Status ReadCount(const ProfileJson& value, const std::string& field,
                       Integer least, Integer most, Integer& out) {
  if (!value.is_number_integer() || value < least || value > most) {
    return Wrong(field, value,
                 absl::StrCat("an integer from ", least, " to ", most));
  }
  out = value.get<Integer>();
  return absl::OkStatus();
}

absl::Status ReadSessions(const ProfileJson& value, const std::string& field,
                          CallClass& out) {
  return ReadCount(value, field, 1, kMostLoadSessions,
                   out.call.sessions.sessions);
}

absl::Status ReadLayers(const ProfileJson& value, const std::string& field,
                        CallClass& out) {
  return ReadCount(value, field, 1, kMostSessionLayers,
                   out.call.sessions.layers);
}

absl::Status ReadKvDType(const ProfileJson& value, const std::string& field,
                         CallClass& out) {
  const auto dtype = ParseKvDType(
      value.is_string() ? value.get<std::string>() : value.dump(), field);
  if (!dtype.ok()) return dtype.status();
  out.call.sessions.kv_dtype = *dtype;
  return absl::OkStatus();
}

absl::Status ReadChunk(const ProfileJson& value, const std::string& field,
                       CallClass& out) {
  return ReadCount(value, field, int64_t{1}, kMostSessionTokens,
                   out.call.sessions.chunk);
}

absl::Status ReadShared(const ProfileJson& value, const std::string& field,
                        CallClass& out) {
  return ReadCount(value, field, int64_t{0}, kMostSessionTokens,
                   out.call.sessions.shared);
}

absl::Status ReadSessionSteps(const ProfileJson& value,
                              const std::string& field, CallClass& out) {
  return ReadCount(value, field, int64_t{0}, kMostSessionTokens,
                   out.call.sessions.steps);
}

absl::Status ReadStream(const ProfileJson& value, const std::string& field,
                        CallClass& out) {
  if (!value.is_boolean()) return Wrong(field, value, "true or false");
  out.call.sessions.stream = value.get<bool>();
  return absl::OkStatus();
}

struct ProfileField {
  const char* name;
  absl::Status (*read)(const ProfileJson& value, const std::string& field,
                       CallClass& out);
};

constexpr ProfileField kProfileFields[] = {
    {"name", ReadName},         {"weight", ReadWeight},
    {"kind", ReadKind},         {"shape", ReadShape},
    {"dtype", ReadDType},       {"causal", ReadCausal},
    {"spec", ReadSpecField},    {"views", ReadViews},
    {"tile", ReadTile},         {"priority", ReadPriority},
    {"payloads", ReadPayloads}, {"deadline", ReadDeadline},
    {"sessions", ReadSessions}, {"layers", ReadLayers},
    {"kv_dtype", ReadKvDType},  {"chunk", ReadChunk},
    {"shared", ReadShared},     {"session_steps", ReadSessionSteps},
    {"stream", ReadStream},
};

// Fields that belong to one kind alone.
struct OwnFields {
  CallKind kind;
  const char* name;
  std::vector<const char*> fields;
};

const std::vector<OwnFields>& FieldsOfKinds() {
  static const auto& kinds = *new std::vector<OwnFields>{
      {CallKind::kInspect, "inspect", {"views", "tile"}},
      {CallKind::kSession,
       "session",
       {"sessions", "layers", "kv_dtype", "chunk", "shared", "session_steps",
        "stream"}}};
  return kinds;
}

absl::Status CheckKind(const ProfileJson& json, const std::string& place,
                       const CallProfile& call) {
  for (const OwnFields& own : FieldsOfKinds()) {
    if (own.kind == call.kind) continue;
    for (const char* field : own.fields) {
      if (!json.contains(field)) continue;
      return FieldError(
          absl::StrCat(place, ".", field), "a value",
          absl::StrCat("none: it belongs to \"kind\": \"", own.name, "\""));
    }
  }
  if (call.kind != CallKind::kSession) return absl::OkStatus();
  return CheckSessionProfile(call.sessions, call.shape, call.dtype,
                             absl::StrCat(place, "."));
}

absl::Status ReadProfileField(const std::string& key, const ProfileJson& value,
                              const std::string& place, CallClass& out) {
  std::vector<std::string> names;
  for (const ProfileField& field : kProfileFields) {
    if (key == field.name) {
      return field.read(value, absl::StrCat(place, ".", key), out);
    }
    names.emplace_back(field.name);
  }
  return FieldError(absl::StrCat(place, ".", key), "an unknown field",
                    absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<CallClass> ReadClass(const ProfileJson& json,
                                    const std::string& place) {
  if (!json.is_object()) return Wrong(place, json, "an object");
  CallClass out;
  for (const auto& [key, value] : json.items()) {
    absl::Status status = ReadProfileField(key, value, place, out);
    if (!status.ok()) return status;
  }
  for (const char* needed : {"name", "shape"}) {
    if (json.contains(needed)) continue;
    return FieldError(absl::StrCat(place, ".", needed), "nothing", "a value");
  }
  if (absl::Status status = CheckKind(json, place, out.call); !status.ok()) {
    return status;
  }
  if (out.call.kind == CallKind::kInspect && !json.contains("views")) {
    out.call.question.views.weights = true;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<CallClass>> ParseMixProfile(const std::string& text,
                                                       const std::string& name,
                                                       uint64_t seed) {
  const auto document = ParseJson(text, name);
  if (!document.ok()) return document.status();
  if (!document->is_array() || document->empty() ||
      document->size() > kMostClasses) {
    return Wrong(name, *document,
                 absl::StrCat("a list of 1 to ", kMostClasses, " classes"));
  }
  std::vector<CallClass> classes;
  std::set<std::string> names;
  for (const ProfileJson& json : *document) {
    const std::string place = absl::StrCat(name, "[", classes.size(), "]");
    auto read = ReadClass(json, place);
    if (!read.ok()) return read.status();
    if (!names.insert(read->name).second) {
      return FieldError(absl::StrCat(place, ".name"),
                        absl::StrCat("\"", read->name, "\" again"),
                        "a name of its own for each class");
    }
    read->call.seed = seed + classes.size();
    classes.push_back(*std::move(read));
  }
  return classes;
}

}  // namespace attn
