#include "tests/client/draw/xml_reader.h"

#include <cctype>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace attn {
namespace {

class XmlParser {
 public:
  explicit XmlParser(const std::string& text) : rest_(text) {}

  XmlDocument Parse() {
    for (const char c : rest_) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') {
        Fail("a control character");
      }
    }
    if (Take("<?xml ")) Until("?>");
    while (document_.fault.empty() && !rest_.empty()) Step();
    if (!open_.empty()) Fail("an element is not closed");
    if (!document_.fault.empty()) document_.elements.clear();
    return std::move(document_);
  }

 private:
  void Fail(const std::string& fault) {
    if (document_.fault.empty()) document_.fault = fault;
    rest_ = {};
  }

  bool Take(absl::string_view prefix) {
    if (!absl::StartsWith(rest_, prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  absl::string_view Until(absl::string_view end) {
    const size_t at = rest_.find(end);
    if (at == absl::string_view::npos) {
      Fail("no " + std::string(end));
      return {};
    }
    const absl::string_view found = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return found;
  }

  void SkipBlanks() {
    while (!rest_.empty() && std::isspace(rest_[0]) != 0) {
      rest_.remove_prefix(1);
    }
  }

  std::string Name() {
    std::string name;
    while (!rest_.empty() && (std::isalnum(rest_[0]) != 0 || rest_[0] == ':' ||
                              rest_[0] == '-' || rest_[0] == '_')) {
      name += rest_[0];
      rest_.remove_prefix(1);
    }
    if (name.empty()) Fail("no name");
    return name;
  }

  std::string Resolve(absl::string_view text) {
    const std::pair<absl::string_view, char> known[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}};
    std::string resolved;
    while (!text.empty()) {
      if (text[0] == '<') Fail("a bare <");
      if (text[0] != '&') {
        resolved += text[0];
        text.remove_prefix(1);
        continue;
      }
      size_t length = 0;
      for (const auto& [reference, c] : known) {
        if (!absl::StartsWith(text, reference)) continue;
        resolved += c;
        length = reference.size();
      }
      if (length == 0) {
        Fail("a bare &");
        return resolved;
      }
      text.remove_prefix(length);
    }
    return resolved;
  }

  // Text, or one tag.
  void Step() {
    if (!Take("<")) {
      const size_t tag = rest_.find('<');
      const absl::string_view text = rest_.substr(0, tag);
      rest_.remove_prefix(text.size());
      const std::string resolved = Resolve(text);
      if (!open_.empty()) document_.elements[open_.back()].text += resolved;
      return;
    }
    if (Take("/")) {
      const std::string name = Name();
      if (open_.empty() || document_.elements[open_.back()].name != name) {
        return Fail("</" + name + "> closes nothing");
      }
      open_.pop_back();
      Until(">");
      return;
    }
    Begin();
  }

  void Begin() {
    if (open_.empty() && !document_.elements.empty()) {
      return Fail("a second root");
    }
    XmlElement element;
    element.name = Name();
    SkipBlanks();
    while (document_.fault.empty() && rest_[0] != '>' && rest_[0] != '/') {
      const std::string name = Name();
      if (!Take("=\"")) return Fail("an attribute without a value");
      const std::string value = Resolve(Until("\""));
      if (!element.attributes.emplace(name, value).second) {
        return Fail(name + " comes twice");
      }
      SkipBlanks();
      if (rest_.empty()) return Fail("a tag does not end");
    }
    document_.elements.push_back(std::move(element));
    if (Take("/>")) return;
    if (!Take(">")) return Fail("a tag does not end");
    open_.push_back(document_.elements.size() - 1);
  }

  absl::string_view rest_;
  XmlDocument document_;
  // Elements that are not closed yet.
  std::vector<size_t> open_;
};

}  // namespace

std::vector<XmlElement> XmlDocument::Named(const std::string& name) const {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    if (element.name == name) found.push_back(element);
  }
  return found;
}

XmlDocument ReadXml(const std::string& text) { return XmlParser(text).Parse(); }

}  // namespace attn
