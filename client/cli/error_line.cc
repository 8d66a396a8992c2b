#include "client/cli/error_line.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/draw/label_text.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

struct FlagName {
  absl::string_view option;
  absl::string_view flag;
};

// Options of the library; no other word is spelt so.
constexpr FlagName kOptionFlags[] = {
    {"tls_ca", "--tls-ca"},
    {"tls_cert", "--tls-cert"},
    {"tls_key", "--tls-key"},
    {"tls_server_name", "--tls-server-name"},
    {"token_file", "--token-file"},
    {"allow_plaintext_token", "--allow-plaintext-token"},
    {"max_isa", "--max-isa"},
};

// Common words, which are meant only where they are the field of an error.
constexpr FlagName kFieldFlags[] = {
    {"address", "--address"},
    {"deadline", "--timeout"},
    {"outputs", "--want"},
    {"views", "--view"},
    {"session_id", "--session"},
    {"position", "--position"},
    {"layers", "--layers"},
    {"q_heads", "--q-heads"},
    {"kv_heads", "--kv-heads"},
    {"q_dim", "--q-dim"},
    {"k_dim", "--k-dim"},
    {"v_dim", "--v-dim"},
    {"kv_dtype", "--kv-dtype"},
    {"max_tokens", "--max-tokens"},
    {"idle_timeout_ms", "--idle-timeout"},
};

// What helps where a field ends so, or the message has these words.
struct FieldAdvice {
  absl::string_view field;
  absl::string_view words;
  absl::string_view what_to_do;
};
constexpr FieldAdvice kFieldAdvice[] = {
    {".dtype", "", "--dtype f32 converts q, k and v"},
    {".causal.alignment", "",
     "that is --causal=top_left or --causal=bottom_right"},
    {".window.alignment", "",
     "that is --window L,R,top_left or --window L,R,bottom_right"},
    {".shape", "rank 4",
     "add axes of length 1 in front, in numpy q[None]; or say where sequences "
     "begin with --q-offsets and --kv-offsets"},
    {"kernel", "", "attn plan says which kernels compute a call"},
};

// Characters that stand in the middle of names of files and hosts, or around
// what a user named.
bool IsPartOfName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-' || c == '/' || c == '.' || c == '"';
}

// Whether text[begin, end) is an option and no file that is called so, which
// stands first, or behind what FieldError() says before a value. First stands
// the `field` of the error, too.
bool IsOption(absl::string_view text, size_t begin, size_t end,
              absl::string_view field) {
  if (begin == 0 && text.substr(0, end) != field) return false;
  return (begin == 0 || !IsPartOfName(text[begin - 1])) &&
         (end == text.size() || !IsPartOfName(text[end])) &&
         !absl::EndsWith(text.substr(0, begin), ": got ");
}

void ReplaceOption(const FlagName& name, absl::string_view field,
                   std::string& text) {
  size_t at = 0;
  while ((at = text.find(std::string(name.option), at)) != std::string::npos) {
    const size_t end = at + name.option.size();
    const bool is_option = IsOption(text, at, end, field);
    if (is_option) {
      text.replace(at, name.option.size(), std::string(name.flag));
    }
    at += is_option ? name.flag.size() : name.option.size();
  }
}

}  // namespace

std::string OneLine(absl::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool control = absl::ascii_iscntrl(static_cast<unsigned char>(c));
    if (!control) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return CleanText(line);
}

std::string NameFlags(const absl::Status& status) {
  std::string message(status.message());
  const std::string field = FieldOf(status).value_or("");
  for (const FlagName& name : kFieldFlags) {
    if (field != name.option || !absl::StartsWith(message, field)) continue;
    message.replace(0, field.size(), std::string(name.flag));
  }
  for (const FlagName& name : kOptionFlags) {
    ReplaceOption(name, field, message);
  }
  return message;
}

std::string AdviceFor(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) {
    return "; give it longer with --timeout, or ask attn health whether the "
           "server serves";
  }
  if (absl::IsUnimplemented(status)) {
    return "; is what answers there an attn-server of this version?";
  }
  const std::string field = FieldOf(status).value_or("");
  for (const FieldAdvice& advice : kFieldAdvice) {
    if (!field.empty() && absl::EndsWith(field, advice.field) &&
        absl::StrContains(status.message(), advice.words)) {
      return absl::StrCat("; ", advice.what_to_do);
    }
  }
  return "";
}

}  // namespace attn
