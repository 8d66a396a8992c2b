// shapes.csv for the peers' benches in C++. Standard library only: it is
// compiled beside the peers, not beside ours.
#pragma once

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace peers {

constexpr int kWindow = 256;

struct Shape {
  std::string name;
  int batch, q_heads, kv_heads, q_length, kv_length, dim;
  std::string mode, dtypes;

  int group() const { return q_heads / kv_heads; }
  int length(int b) const {
    if (mode == "pad") return kv_length - 9 * b % 64;
    return mode == "ragged" ? kv_length - 61 * b : kv_length;
  }
  // Whether query `row` of sequence b may attend `key`.
  bool Visible(int b, int row, int key) const {
    const int back = row + kv_length - q_length - key;
    if (mode == "causal") return back >= 0;
    if (mode == "window") return back >= 0 && back < kWindow;
    return key < length(b);
  }
  bool has_mask() const { return mode != "none"; }
};

inline bool IsListed(const std::string& list, char separator,
                     const std::string& item) {
  return (separator + list + separator).find(separator + item + separator) !=
         std::string::npos;
}

// Those of one dtype that are computed by masks; `only`: names, or empty.
inline std::vector<Shape> ReadShapes(const std::string& path,
                                     const std::string& only,
                                     const std::string& dtype) {
  const std::set<std::string> modes = {"none", "causal", "window",
                                       "pad",  "ragged", "bias"};
  std::ifstream stream(path);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    Shape s;
    std::istringstream(line) >> s.name >> s.batch >> s.q_heads >> s.kv_heads >>
        s.q_length >> s.kv_length >> s.dim >> s.mode >> s.dtypes;
    const bool wanted = only.empty() || IsListed(only, ',', s.name);
    if (wanted && modes.count(s.mode) != 0 && IsListed(s.dtypes, '+', dtype)) {
      shapes.push_back(s);
    }
  }
  return shapes;
}

}  // namespace peers
