#include "client/io/npy_header.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attn {
namespace {

// Far more than any stage takes; Shape::Create() has the real bound.
constexpr size_t kMaxAxes = 64;
constexpr size_t kMaxDigits = 18;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("header: ", what));
}

// Reads tokens of a Python literal from the front of `rest`.
class Reader {
 public:
  explicit Reader(absl::string_view text) : rest_(text) {}

  bool Take(char c) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(absl::string_view word) {
    SkipSpace();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // A quoted string without escapes.
  bool TakeString(std::string& value) {
    SkipSpace();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) {
      return false;
    }
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == absl::string_view::npos) return false;
    value = std::string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value.find('\\') == std::string::npos;
  }

  bool TakeInteger(int64_t& value) {
    SkipSpace();
    size_t digits = 0;
    while (digits < rest_.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(rest_[digits]))) {
      ++digits;
    }
    if (digits == 0 || digits > kMaxDigits ||
        !absl::SimpleAtoi(rest_.substr(0, digits), &value)) {
      return false;
    }
    rest_.remove_prefix(digits);
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }

 private:
  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  absl::string_view rest_;
};

// "()", "(3,)", "(2, 3)", "(2, 3, )"
absl::Status ReadShape(Reader& in, std::vector<int64_t>& shape) {
  if (!in.Take('(')) return Bad("shape is not a tuple");
  bool comma = true;
  while (!in.Take(')')) {
    int64_t extent = 0;
    if (!comma || !in.TakeInteger(extent)) {
      return Bad("shape is not a tuple of integers >= 0 below 1e18");
    }
    if (shape.size() == kMaxAxes) return Bad("shape has too many axes");
    shape.push_back(extent);
    comma = in.Take(',');
  }
  // (3) is an integer in Python, not a tuple.
  if (shape.size() == 1 && !comma) return Bad("shape is not a tuple");
  return absl::OkStatus();
}

absl::Status ReadValue(const std::string& key, Reader& in, NpyHeader& header) {
  if (key == "descr") {
    return in.TakeString(header.descr)
               ? absl::OkStatus()
               : Bad("descr is not a string (structured types are not read)");
  }
  if (key == "fortran_order") {
    header.fortran_order = in.TakeWord("True");
    return header.fortran_order || in.TakeWord("False")
               ? absl::OkStatus()
               : Bad("fortran_order is neither True nor False");
  }
  if (key == "shape") return ReadShape(in, header.shape);
  return Bad(absl::StrCat("unknown key '", key, "'"));
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  Reader in(text);
  NpyHeader header;
  std::set<std::string> seen;
  if (!in.Take('{')) return Bad("not a dict");
  bool comma = true;
  while (!in.Take('}')) {
    std::string key;
    if (!comma || !in.TakeString(key) || !in.Take(':')) {
      return Bad("not a dict of strings to values");
    }
    if (!seen.insert(key).second) {
      return Bad(absl::StrCat("'", key, "' comes twice"));
    }
    absl::Status status = ReadValue(key, in, header);
    if (!status.ok()) return status;
    comma = in.Take(',');
  }
  if (!in.AtEnd()) return Bad("something follows the dict");
  if (seen.size() != 3) return Bad("descr, fortran_order or shape is missing");
  return header;
}

std::string FormatNpyHeader(const NpyHeader& header) {
  const bool one = header.shape.size() == 1;
  return absl::StrCat("{'descr': '", header.descr, "', 'fortran_order': ",
                      header.fortran_order ? "True" : "False", ", 'shape': (",
                      absl::StrJoin(header.shape, ", "), one ? ",)" : ")",
                      ", }");
}

}  // namespace attn
