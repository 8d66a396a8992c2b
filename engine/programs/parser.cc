#include "engine/programs/parser.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/programs/token.h"
#include "engine/programs/vocabulary.h"

namespace attn {
namespace {

// The place of a node in the expression; none: the parser has failed.
using Place = std::optional<uint16_t>;

// Recursive descent; operators by their level. Fails once: the first error
// stays. Thread-compatible.
class Parser {
 public:
  Parser(const ProgramSpec& spec, const Problem& problem, ProgramKind kind,
         absl::string_view field)
      : spec_(spec),
        problem_(problem),
        kind_(kind),
        field_(absl::StrCat(field, ".source")) {
    Advance();
  }

  absl::StatusOr<Expression> Parse();

 private:
  void Advance() {
    token_ = NextToken(spec_.source, end_);
    end_ = token_.column - 1 + token_.text.size();
  }
  Place Fail(const Token& token, absl::string_view expected) {
    if (status_.ok()) status_ = TokenError(field_, token, expected);
    return std::nullopt;
  }
  // Passes over `symbol`, or fails.
  bool Expect(absl::string_view symbol) {
    if (token_.Is(symbol)) {
      Advance();
      return true;
    }
    Fail(token_, absl::StrCat("\"", symbol, "\""));
    return false;
  }
  bool is_bool(uint16_t place) const { return nodes_[place].is_bool; }

  Place ParseExpression();
  Place ParseInfix(int level);
  Place ParsePrefix();
  Place ParsePrimary();
  Place ParseName();
  Place ParseCall(const Token& name, const ProgramFunction& function);
  Place ParseTable(const Token& name, size_t table);
  // Expressions of numbers between `open` and `close`, at most three.
  std::optional<std::vector<uint16_t>> ParseList(const Token& name,
                                                 absl::string_view open,
                                                 absl::string_view close);
  std::optional<Node> FindLeaf(absl::string_view name) const;
  std::string ReadableNames() const;

  Place AddInfix(const Token& token, const InfixOperator& op, uint16_t left,
                 uint16_t right);
  Place AddSelect(const Token& token, uint16_t condition, uint16_t yes,
                  uint16_t no);
  Place Add(const Token& token, Operation operation,
            std::initializer_list<uint16_t> operands);
  Place AddNode(const Token& token, Node node);

  const ProgramSpec& spec_;
  const Problem& problem_;
  const ProgramKind kind_;
  const std::string field_;
  Token token_;
  size_t end_ = 0;  // of token_
  int nesting_ = 0;
  absl::Status status_;
  Expression nodes_;
};

absl::StatusOr<Expression> Parser::Parse() {
  if (spec_.source.size() > kMaxProgramBytes) {
    return FieldError(field_, absl::StrCat(spec_.source.size(), " bytes"),
                      absl::StrCat("at most ", kMaxProgramBytes));
  }
  const Place result = ParseExpression();
  if (result && token_.kind != TokenKind::kEnd) {
    Fail(token_, "an operator or the end");
  }
  if (!status_.ok()) return status_;
  const bool wants_bool = kind_ == ProgramKind::kMask;
  if (is_bool(*result) == wants_bool) return std::move(nodes_);
  return FieldError(
      field_,
      absl::StrCat(wants_bool ? "a number" : "a bool", " from column 1 on"),
      wants_bool ? "a bool: whether the key is allowed"
                 : "a number: the new value");
}

// infix [? expression : expression]
Place Parser::ParseExpression() {
  if (nesting_ == kMaxProgramDepth) {
    return Fail(token_, absl::StrCat("at most ", kMaxProgramDepth, " levels"));
  }
  ++nesting_;
  Place result = ParseInfix(kLowestLevel);
  if (result && token_.Is("?")) {
    const Token token = token_;
    Advance();
    const Place yes = ParseExpression();
    if (!yes || !Expect(":")) return std::nullopt;
    const Place no = ParseExpression();
    result = no ? AddSelect(token, *result, *yes, *no) : std::nullopt;
  }
  --nesting_;
  return result;
}

// Operators of at least this level.
Place Parser::ParseInfix(int level) {
  Place left = ParsePrefix();
  while (left && token_.kind == TokenKind::kSymbol) {
    const Token token = token_;
    const InfixOperator* op = FindInfixOperator(token.text);
    if (op == nullptr || op->level < level) break;
    Advance();
    const Place right = ParseInfix(op->level + 1);
    left = right ? AddInfix(token, *op, *left, *right) : std::nullopt;
  }
  return left;
}

// - and ! bind more tightly than any infix operator.
Place Parser::ParsePrefix() {
  const Token token = token_;
  const bool negate = token.Is("-");
  if (!negate && !token.Is("!")) return ParsePrimary();
  if (nesting_ == kMaxProgramDepth) {
    return Fail(token, absl::StrCat("at most ", kMaxProgramDepth, " levels"));
  }
  ++nesting_;
  Advance();
  const Place operand = ParsePrefix();
  --nesting_;
  if (!operand) return std::nullopt;
  if (is_bool(*operand) == negate) {
    return Fail(token, negate ? "a number after it" : "a bool after it");
  }
  return Add(token, negate ? Operation::kNegate : Operation::kNot, {*operand});
}

Place Parser::ParsePrimary() {
  if (token_.Is("(")) {
    Advance();
    const Place inside = ParseExpression();
    return inside && Expect(")") ? inside : std::nullopt;
  }
  if (token_.kind == TokenKind::kName) return ParseName();
  if (token_.kind != TokenKind::kNumber) {
    return Fail(token_, "a number, a name, \"(\", \"-\" or \"!\"");
  }
  const Token token = token_;
  Advance();
  Node node;
  node.number = token.number;
  return AddNode(token, node);
}

Place Parser::ParseName() {
  const Token name = token_;
  Advance();
  if (const ProgramFunction* function = FindProgramFunction(name.text)) {
    return ParseCall(name, *function);
  }
  for (size_t i = 0; i < spec_.tables.size(); ++i) {
    if (name.text == absl::string_view(spec_.tables[i].name)) {
      return ParseTable(name, i);
    }
  }
  const std::optional<Node> leaf = FindLeaf(name.text);
  if (leaf) return AddNode(name, *leaf);
  return Fail(name, absl::StrCat("a function or one of ", ReadableNames()));
}

Place Parser::ParseCall(const Token& name, const ProgramFunction& function) {
  const auto arguments = ParseList(name, "(", ")");
  if (!arguments) return std::nullopt;
  if (arguments->size() != function.arity) {
    return Fail(name, absl::StrCat(int{function.arity}, " arguments, not ",
                                   arguments->size()));
  }
  const auto& a = *arguments;
  if (function.arity == 1) return Add(name, function.operation, {a[0]});
  const Place result = Add(name, function.operation, {a[0], a[1]});
  if (!result || function.arity == 2) return result;
  // clamp(x, low, high) = min(max(x, low), high)
  return Add(name, Operation::kMin, {*result, a[2]});
}

Place Parser::ParseTable(const Token& name, size_t table) {
  const auto indices = ParseList(name, "[", "]");
  if (!indices) return std::nullopt;
  const int rank = problem_.inputs[spec_.tables[table].input].shape.rank();
  if (static_cast<int>(indices->size()) != rank) {
    return Fail(name,
                absl::StrCat(rank, rank == 1 ? " index" : " indices",
                             ", the table's rank, not ", indices->size()));
  }
  const auto& i = *indices;
  const Place place = rank == 1 ? Add(name, Operation::kTable, {i[0]})
                                : Add(name, Operation::kTable, {i[0], i[1]});
  if (place) nodes_[*place].table = static_cast<uint8_t>(table);
  return place;
}

std::optional<std::vector<uint16_t>> Parser::ParseList(
    const Token& name, absl::string_view open, absl::string_view close) {
  constexpr size_t kMost = 3;
  std::vector<uint16_t> places;
  if (!Expect(open)) return std::nullopt;
  do {
    if (!places.empty()) Advance();
    const Token first = token_;
    const Place place = ParseExpression();
    if (!place) return std::nullopt;
    if (is_bool(*place) || places.size() == kMost) {
      Fail(first, is_bool(*place) ? absl::StrCat("a number for ", name.text)
                                  : std::string("no more than 3"));
      return std::nullopt;
    }
    places.push_back(*place);
  } while (token_.Is(","));
  if (!Expect(close)) return std::nullopt;
  return places;
}

std::optional<Node> Parser::FindLeaf(absl::string_view name) const {
  const AttentionShape& shape = problem_.shape;
  const auto number = [](int64_t value) {
    Node node;
    node.number = static_cast<double>(value);
    return node;
  };
  const auto varying = [](Operation operation, Domain domain) {
    Node node;
    node.operation = operation;
    node.domain = domain;
    return node;
  };
  if ((name == "score" && kind_ == ProgramKind::kScore) ||
      (name == "weight" && kind_ == ProgramKind::kWeight)) {
    return varying(Operation::kValue, Domain::kValue);
  }
  if (name == "b") return varying(Operation::kBatch, Domain::kRow);
  if (name == "h") return varying(Operation::kHead, Domain::kRow);
  if (name == "q") return varying(Operation::kQuery, Domain::kRow);
  if (name == "p") return varying(Operation::kPosition, Domain::kRow);
  if (name == "k") return varying(Operation::kKey, Domain::kKey);
  if (name == "Sq") {
    return problem_.ragged ? varying(Operation::kQueries, Domain::kRow)
                           : number(shape.q_length);
  }
  if (name == "Sk") {
    return problem_.ragged ? varying(Operation::kKeys, Domain::kRow)
                           : number(shape.kv_length);
  }
  if (name == "H") return number(shape.q_heads);
  if (name == "B") return number(shape.batch);
  Node node;
  if (name == "inf") {
    node.number = std::numeric_limits<double>::infinity();
    return node;
  }
  if (name != "true" && name != "false") return std::nullopt;
  node.is_bool = true;
  node.number = name == "true" ? 1 : 0;
  return node;
}

std::string Parser::ReadableNames() const {
  std::string names;
  if (kind_ == ProgramKind::kScore) names = "score, ";
  if (kind_ == ProgramKind::kWeight) names = "weight, ";
  absl::StrAppend(&names, "b, h, q, k, p, Sq, Sk, H, B, inf, true, false");
  for (const ProgramTable& table : spec_.tables) {
    absl::StrAppend(&names, ", ", table.name);
  }
  return names;
}

Place Parser::AddInfix(const Token& token, const InfixOperator& op,
                       uint16_t left, uint16_t right) {
  switch (op.operands) {
    case OperandTypes::kNumbers:
      if (is_bool(left) || is_bool(right)) {
        return Fail(token, "numbers on both sides");
      }
      break;
    case OperandTypes::kBools:
      if (!is_bool(left) || !is_bool(right)) {
        return Fail(token, "bools on both sides");
      }
      break;
    case OperandTypes::kAlike:
      if (is_bool(left) != is_bool(right)) {
        return Fail(token, "numbers, or bools, on both sides");
      }
      break;
  }
  const Place place = Add(token, op.operation, {left, right});
  if (place) nodes_[*place].is_bool = op.gives_bool;
  return place;
}

Place Parser::AddSelect(const Token& token, uint16_t condition, uint16_t yes,
                        uint16_t no) {
  if (!is_bool(condition)) return Fail(token, "a bool before it");
  if (is_bool(yes) != is_bool(no)) {
    return Fail(token, "numbers, or bools, on both sides of \":\"");
  }
  const Place place = Add(token, Operation::kSelect, {condition, yes, no});
  if (place) nodes_[*place].is_bool = is_bool(yes);
  return place;
}

Place Parser::Add(const Token& token, Operation operation,
                  std::initializer_list<uint16_t> operands) {
  Node node;
  node.operation = operation;
  node.is_bool = operation == Operation::kNot;
  for (const uint16_t operand : operands) {
    const Node& child = nodes_[operand];
    node.operands[node.arity++] = operand;
    node.domain = std::max(node.domain, child.domain);
    node.depth = std::max<uint8_t>(node.depth, child.depth + 1);
  }
  return AddNode(token, node);
}

Place Parser::AddNode(const Token& token, Node node) {
  if (nodes_.size() == kMaxProgramNodes) {
    return Fail(token,
                absl::StrCat("at most ", kMaxProgramNodes,
                             " numbers, names, operators and functions"));
  }
  if (node.depth > kMaxProgramDepth) {
    return Fail(token, absl::StrCat("at most ", kMaxProgramDepth, " levels"));
  }
  nodes_.push_back(node);
  return static_cast<uint16_t>(nodes_.size() - 1);
}

}  // namespace

absl::StatusOr<Expression> ParseProgram(const ProgramSpec& spec,
                                        const Problem& problem,
                                        ProgramKind kind,
                                        absl::string_view field) {
  return Parser(spec, problem, kind, field).Parse();
}

}  // namespace attn
