#include "client/cli/check/graph_program.h"

#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/check/outcome.h"

namespace attn {
namespace {

using nlohmann::json;

constexpr char kMinusInfinity[] = "-inf";
// Terms that stand for a tensor of extents and for 0, 1, 2, ...
constexpr char kShape[] = "<shape>";
constexpr char kRange[] = "<range>";

struct InfixRow {
  const char* op;
  const char* symbol;
};

constexpr InfixRow kInfix[] = {
    {"Add", "+"},  {"Sub", "-"},          {"Mul", "*"},
    {"Div", "/"},  {"Greater", ">"},      {"GreaterOrEqual", ">="},
    {"Less", "<"}, {"LessOrEqual", "<="}, {"Equal", "=="},
    {"And", "&&"}, {"Or", "||"},
};

struct FunctionRow {
  const char* op;
  const char* name;
};

constexpr FunctionRow kFunctions[] = {
    {"Tanh", "tanh"}, {"Exp", "exp"},         {"Log", "log"},
    {"Abs", "abs"},   {"Sigmoid", "sigmoid"}, {"Sqrt", "sqrt"},
};

// The terms of a graph by the names of its edges.
class Translation {
 public:
  explicit Translation(const json& graph, const std::string& word)
      : graph_(graph) {
    for (const json& input : graph_.value("graph_inputs", json::array())) {
      terms_[input] = word;
    }
    const json initializers = graph_.value("initializers", json::object());
    for (const auto& [name, value] : initializers.items()) {
      if (value.is_number()) {
        terms_[name] = absl::StrFormat("(%.17g)", value.get<double>());
      } else if (value == kMinusInfinity) {
        terms_[name] = kMinusInfinity;
      } else {
        lists_[name] = value;
      }
    }
  }

  absl::StatusOr<GraphProgram> Run() {
    for (const json& node : graph_.value("graph", json::array())) {
      auto term = Translate(node);
      if (!term.ok()) return term.status();
      terms_[node["outputs"][0]] = *std::move(term);
    }
    const std::string last = graph_.value("graph_outputs", json::array())[0];
    program_.value = terms_[last];
    return program_;
  }

 private:
  // Term of the node's input; empty if there is none.
  std::string Term(const json& node, size_t at) {
    const json inputs = node.value("inputs", json::array());
    return at < inputs.size() ? terms_[inputs[at].get<std::string>()] : "";
  }

  absl::StatusOr<std::string> Translate(const json& node) {
    const std::string op = node.value("op", "");
    for (const InfixRow& row : kInfix) {
      if (op == row.op) {
        return absl::StrCat("(", Term(node, 0), " ", row.symbol, " ",
                            Term(node, 1), ")");
      }
    }
    for (const FunctionRow& row : kFunctions) {
      if (op == row.op) return absl::StrCat(row.name, "(", Term(node, 0), ")");
    }
    if (op == "Cast") return Term(node, 0);
    if (op == "Shape") return std::string(kShape);
    // One extent of the scores: it only says how far a range goes.
    if (op == "Gather" && Term(node, 0) == kShape) return std::string(kShape);
    if (op == "Range" && Term(node, 1) == kShape) return std::string(kRange);
    if (op == "Reshape" && Term(node, 0) == kRange) return Axis(node);
    if (op == "Where") return Where(node);
    return Skip(absl::StrCat("a graph with ", op));
  }

  // A range along one axis of [B, H, Sq, Sk], which shapes meet at their ends.
  absl::StatusOr<std::string> Axis(const json& node) {
    const json shape = lists_[node["inputs"][1].get<std::string>()];
    static constexpr const char* kTensorAxes[] = {"k", "q", "h", "b"};
    std::string axis;
    for (size_t i = 0; i < shape.size() && i < std::size(kTensorAxes); ++i) {
      const json& extent = shape[shape.size() - 1 - i];
      if (extent == -1 && axis.empty()) {
        axis = kTensorAxes[i];
      } else if (extent != 1) {
        axis.clear();
        break;
      }
    }
    if (!axis.empty() && shape.size() <= std::size(kTensorAxes)) return axis;
    return Skip(absl::StrCat("a range of shape ", shape.dump()));
  }

  absl::StatusOr<std::string> Where(const json& node) {
    if (Term(node, 2) != kMinusInfinity) {
      return absl::StrCat("(", Term(node, 0), " ? ", Term(node, 1), " : ",
                          Term(node, 2), ")");
    }
    if (!program_.mask.empty()) program_.mask += " && ";
    program_.mask += Term(node, 0);
    return Term(node, 1);
  }

  const json& graph_;
  std::map<std::string, std::string> terms_;
  std::map<std::string, json> lists_;
  GraphProgram program_;
};

}  // namespace

absl::StatusOr<GraphProgram> TranslateGraph(const json& graph,
                                            const std::string& word) {
  if (!graph.is_object() || graph.value("graph_outputs", json()).empty()) {
    return Skip("a graph without outputs");
  }
  auto program = Translation(graph, word).Run();
  if (program.ok() && program->value == word) program->value.clear();
  return program;
}

}  // namespace attn
