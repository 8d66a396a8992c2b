// As much of XML as an SVG of ours may hold.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  // Of the element itself, without that of its children.
  std::string text;
};

// The elements in the order of their beginnings, with references resolved.
// What is not well-formed, or holds characters that XML must not, gives none
// and says why.
struct XmlDocument {
  std::vector<XmlElement> elements;
  std::string fault;

  std::vector<XmlElement> Named(const std::string& name) const;
};

XmlDocument ReadXml(const std::string& text);

}  // namespace attn
