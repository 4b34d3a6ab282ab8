// Scalars of a loop nest as CUDA C++, a line each.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"
#include "text/code_writer.hpp"

namespace kiln::codegen::cuda {

/// What is the same for all of one nest's kernels.
struct NestText {
  const LoopProgram& program;
  const LoopNest& nest;
  CodeWriter& out;
  std::vector<ir::Expr>& sizes;  ///< Run-time arguments: `sizes[i]` in the kernel.
  /// Quotients and exponentials may be a few units of a float off: whatever is stored has 16 bits,
  /// and nothing on the way there leaps.
  bool is_approximate = false;
  bool checks_indices = false;  ///< Some kernel has a `bool ok`, false once an index was outside.

  [[nodiscard]] const Scalar& scalar(ScalarId id) const { return program.pool[id]; }
  [[nodiscard]] ir::DType dtype(std::uint32_t operand) const {
    return program[nest.operands[operand].tensor].dtype;
  }
  /// A size: a number, or `sizes[i]`.
  [[nodiscard]] std::string size(const ir::Expr& expr) const;
  /// "in0", "out2"
  [[nodiscard]] std::string operand(std::uint32_t operand) const;
};

/// Writes values at one point of the nest, whose variables are named `o`, `m` and `j` there, each
/// value once.
class ScalarWriter {
 public:
  explicit ScalarWriter(NestText& text) : text_(text) {}

  /// The name of the value, after the lines that compute it.
  std::string value(ScalarId id);
  /// The same of an index, as an expression of type `Int`.
  std::string index(const Index& index);
  /// Names a value that is there already.
  void set(ScalarId id, std::string name) { names_[id] = std::move(name); }
  /// Whether computing it reads memory.
  bool loads(ScalarId id);

 private:
  std::string compute(const Scalar& scalar);
  std::string operation(const Scalar& scalar, const std::vector<std::string>& operands) const;
  std::string load(const Scalar& scalar);
  // Only the branch that is taken may load.
  std::string choose(const Scalar& scalar);
  std::string atom(const Atom& atom);
  std::string number(const Index& value);
  std::string converted(const Scalar& scalar, const std::string& from) const;

  NestText& text_;
  std::unordered_map<ScalarId, std::string> names_;
  std::unordered_map<ScalarId, bool> loads_;
  int next_ = 0;
};

/// Loads that computing `root` needs whatever the data are, in no branch of a `where`.
void collect_unconditional_loads(const ScalarPool& pool,
                                 ScalarId root,
                                 std::unordered_set<ScalarId>& seen,
                                 std::vector<ScalarId>& loads);

/// Whether a small error of a quotient or an exponential may become a large one of `root`: it is
/// compared, rounded to an integer, or reinterpreted as bits.
[[nodiscard]] bool needs_exact_values(const ScalarPool& pool, ScalarId root);

/// Whether `root` checks an index.
[[nodiscard]] bool checks_index(const ScalarPool& pool, ScalarId root);

}  // namespace kiln::codegen::cuda
