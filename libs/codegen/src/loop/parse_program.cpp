#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "loop/program_text.hpp"

namespace kiln::codegen {
namespace {

using ir::DType;
using ir::Expr;

// Reads one line.
class LineParser {
 public:
  LineParser(std::string_view text, std::size_t line, LoopProgram& program)
      : text_(text), line_(line), program_(program) {}

  void run() {
    expect("t");
    if (integer() != static_cast<std::int64_t>(program_.tensors.size())) {
      fail("the tensors in order");
    }
    expect("=");
    Tensor tensor;
    tensor.kind = kind();
    tensor.dtype = dtype();
    tensor.sizes = numbers("[", "]");
    tensor.strides = numbers("{", "}");
    tensor.is_view = accept("view");
    tensor.is_concatenation = accept("concatenation");
    if (accept("rereads")) {
      tensor.reread = tensor_id();
    }
    if (tensor.kind == Tensor::Kind::kReduction) {
      tensor.reduction = required_reduction();
      expect("over");
      tensor.reduced = numbers("[", "]");
    } else if (tensor.kind == Tensor::Kind::kScan) {
      tensor.reduction = required_reduction();
      expect("along");
      tensor.scanned = static_cast<std::size_t>(integer());
    }
    if (tensor.kind != Tensor::Kind::kMemory) {
      tensor.body = scalar();
    }
    if (accept("updates")) {
      tensor.updates = updates();
    }
    skip_blanks();
    if (at_ != text_.size()) {
      fail("the end of the line");
    }
    program_.tensors.push_back(std::move(tensor));
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(ErrorCode::kInvalidArgument,
                "line " + std::to_string(line_) + ", column " + std::to_string(at_ + 1) +
                    ": expected " + expected);
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }

  bool accept(std::string_view token) {
    skip_blanks();
    const bool found = text_.substr(at_).starts_with(token);
    at_ += found ? token.size() : 0;
    return found;
  }

  void expect(std::string_view token) {
    if (!accept(token)) {
      fail("'" + std::string(token) + "'");
    }
  }

  std::string_view word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    if (at_ == begin) {
      fail("a word");
    }
    return text_.substr(begin, at_ - begin);
  }

  std::int64_t integer() {
    skip_blanks();
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const long long value = std::strtoll(rest.c_str(), &end, 10);
    if (end == rest.c_str()) {
      fail("an integer");
    }
    at_ += static_cast<std::size_t>(end - rest.c_str());
    return value;
  }

  // "16" or "{2*s0 + 1}".
  Expr number() {
    if (!accept("{")) {
      return integer();
    }
    const std::size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) {
      fail("'}'");
    }
    const Expr value = Expr::parse(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }

  std::vector<Expr> numbers(std::string_view open, std::string_view close) {
    expect(open);
    std::vector<Expr> values;
    while (!accept(close)) {
      if (!values.empty()) {
        expect(",");
      }
      values.push_back(number());
    }
    return values;
  }

  Tensor::Kind kind() {
    const std::string_view name = word();
    for (const auto& [text, kind] : {std::pair("memory", Tensor::Kind::kMemory),
                                     std::pair("pointwise", Tensor::Kind::kPointwise),
                                     std::pair("reduction", Tensor::Kind::kReduction),
                                     std::pair("scan", Tensor::Kind::kScan),
                                     std::pair("scatter", Tensor::Kind::kScatter)}) {
      if (name == text) {
        return kind;
      }
    }
    fail("a kind of tensor");
  }

  DType dtype() {
    const std::optional<DType> type = ir::parse_dtype(word());
    if (!type) {
      fail("a type");
    }
    return *type;
  }

  // Nothing for "set".
  std::optional<Reduction> reduction() {
    const std::string_view name = word();
    for (const Reduction each : {Reduction::kSum,
                                 Reduction::kProduct,
                                 Reduction::kMaximum,
                                 Reduction::kMinimum,
                                 Reduction::kAny,
                                 Reduction::kAll}) {
      if (name == to_string(each)) {
        return each;
      }
    }
    if (name != "set") {
      fail("a reduction");
    }
    return std::nullopt;
  }

  Reduction required_reduction() {
    const std::optional<Reduction> found = reduction();
    if (!found) {
      fail("a reduction");
    }
    return *found;
  }

  TensorId tensor_id() {
    expect("t");
    const std::int64_t number = integer();
    if (number < 0 || number >= static_cast<std::int64_t>(program_.tensors.size())) {
      fail("a tensor of a line above");
    }
    return TensorId(static_cast<std::size_t>(number));
  }

  Updates updates() {
    Updates updates;
    updates.sizes = numbers("[", "]");
    expect("from");
    updates.first = static_cast<std::size_t>(integer());
    expect("to");
    updates.last = static_cast<std::size_t>(integer());
    expect("at");
    updates.place = indices();
    updates.reduction = reduction();
    updates.value = scalar();
    return updates;
  }

  std::vector<Index> indices() {
    expect("[");
    std::vector<Index> list;
    while (!accept("]")) {
      if (!list.empty()) {
        expect(",");
      }
      list.push_back(index());
    }
    return list;
  }

  Index index() {
    Index sum = term();
    while (accept("+")) {
      sum = sum + term();
    }
    return sum;
  }

  // A number, an atom, or a number times an atom.
  Index term() {
    if (std::optional<Index> atom = this->atom()) {
      return *atom;
    }
    const Expr factor = number();
    if (!accept("*")) {
      return factor;
    }
    std::optional<Index> atom = this->atom();
    if (!atom) {
      fail("a variable, a quotient or a value");
    }
    return *atom * factor;
  }

  std::optional<Index> atom() {
    if (accept("i")) {
      return Index::variable(static_cast<int>(integer()));
    }
    if (accept("<")) {
      const ScalarId computed = scalar();
      expect(">");
      return Index::computed(computed);
    }
    if (!accept("(")) {
      return std::nullopt;
    }
    Atom made;
    made.operand = index();
    expect(")");
    made.kind = accept("%") ? Atom::Kind::kRemainder : Atom::Kind::kQuotient;
    if (made.kind == Atom::Kind::kQuotient) {
      expect("/");
    }
    made.divisor = number();
    return Index::of(std::make_shared<const Atom>(std::move(made)));
  }

  ScalarId scalar() {
    skip_blanks();
    if (std::optional<ScalarId> constant = this->constant()) {
      return *constant;
    }
    const std::size_t begin = at_;
    const std::string_view name = word();
    if (name == "index") {
      expect("(");
      const Index value = index();
      expect(")");
      return program_.pool.add(
          {.op = ScalarOp::kIndex, .dtype = DType::kInt64, .indices = {value}});
    }
    if (name.size() > 1 && name[0] == 't' && std::isdigit(static_cast<unsigned char>(name[1]))) {
      at_ = begin;
      const TensorId tensor = tensor_id();
      return program_.pool.read(tensor, indices(), program_[tensor].dtype);
    }
    return operation(name);
  }

  // "0.5:f32", "inf:f64", "3:i64".
  std::optional<ScalarId> constant() {
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const double real = std::strtod(rest.c_str(), &end);
    if (end == rest.c_str() || *end != ':') {
      return std::nullopt;
    }
    const long long exact = std::strtoll(rest.c_str(), nullptr, 10);
    at_ += static_cast<std::size_t>(end - rest.c_str()) + 1;
    const DType type = dtype();
    return ir::is_floating_point(type)
               ? program_.pool.add({.op = ScalarOp::kConstant, .dtype = type, .real = real})
               : program_.pool.add({.op = ScalarOp::kConstant, .dtype = type, .integer = exact});
  }

  ScalarId operation(std::string_view name) {
    Scalar made;
    made.op = operator_named(name);
    if (made.op == ScalarOp::kCast) {
      expect(".");
      made.dtype = dtype();
    }
    expect("(");
    while (!accept(")")) {
      if (!made.operands.empty()) {
        expect(",");
      }
      made.operands.push_back(scalar());
    }
    const std::size_t expected = made.op == ScalarOp::kWhere ? 3 : made.operands.size();
    if (made.operands.empty() || made.operands.size() != expected) {
      fail("other operands of " + std::string(name));
    }
    if (made.op != ScalarOp::kCast) {
      made.dtype = program_.pool[made.operands[made.op == ScalarOp::kWhere ? 1 : 0]].dtype;
    }
    if ((made.op >= ScalarOp::kEqual && made.op <= ScalarOp::kLessEqual) ||
        made.op == ScalarOp::kIsNan) {
      made.dtype = DType::kBool;
    }
    return program_.pool.add(std::move(made));
  }

  ScalarOp operator_named(std::string_view name) const {
    for (int i = static_cast<int>(ScalarOp::kCast); i <= static_cast<int>(ScalarOp::kLast); ++i) {
      if (name == to_string(static_cast<ScalarOp>(i))) {
        return static_cast<ScalarOp>(i);
      }
    }
    fail("an operator");
  }

  std::string_view text_;
  std::size_t line_;
  LoopProgram& program_;
  std::size_t at_ = 0;
};

}  // namespace

LoopProgram parse_loop_program(std::string_view text) {
  LoopProgram program;
  std::size_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++line;
    const std::string_view words = text.substr(0, end);
    const std::size_t first = words.find_first_not_of(' ');
    if (first != std::string_view::npos && words[first] != '#') {
      LineParser(words, line, program).run();
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return program;
}

}  // namespace kiln::codegen
