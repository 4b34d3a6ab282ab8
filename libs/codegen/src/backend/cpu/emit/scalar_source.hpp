// Scalars of a kernel as C++ expressions, one line each.

#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cpu/emit/type_names.hpp"
#include "loop/loop_depth.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"
#include "text/code_writer.hpp"

namespace kiln::codegen {

/// What is the same for all text of one kernel.
struct TextContext {
  const LoopProgram& program;
  const LoopNest& kernel;
  LoopDepths& depths;
  CodeWriter& out;
  std::vector<ir::Expr>& sizes;
  /// Where a kernel that finds an index out of range says so: an `int*`, the last of `buffers`.
  std::string failure = {};
  bool checks_indices = false;

  [[nodiscard]] const Scalar& scalar(ScalarId id) const { return program.pool[id]; }
  /// A size as text: a number, or a place in the kernel's `sizes`.
  [[nodiscard]] std::string text(const ir::Expr& expr) const;
  /// The name of an operand: "in0", "out2".
  [[nodiscard]] std::string operand(std::uint32_t operand) const;
};

/// Writes values as named lines, each once for the block it is in. Values of an outer block are
/// visible in inner ones.
class Block {
 public:
  /// `inner` is the name of the inner variable here (`j`, `j + 4`); `count`, if any, of the lanes
  /// in use. Names of values end in `suffix`.
  Block(TextContext& context,
        Block* parent,
        LoopDepth depth,
        std::string inner = "j",
        std::string count = "",
        std::string suffix = "");

  /// The name of `id`'s value, after the lines that compute it.
  std::string value(ScalarId id);
  /// The same as a vector, splat if it is a scalar.
  std::string vector(ScalarId id);
  /// An index as a scalar expression; it must not change along the inner variable unless `inner` is
  /// wanted.
  std::string index(const Index& index);
  /// Names the outer variable here and in blocks made in this one from now on, which is else `o`.
  void set_outer(std::string outer) { outer_ = std::move(outer); }
  /// Names a value that is there already.
  void set(ScalarId id, std::string name) { names_[id] = std::move(name); }

  /// A vector of `type` loaded from, or stored at, `address` of the memory `base`.
  std::string load_vector(const std::string& base, const Index& address);
  void store_vector(const std::string& base, const Index& address, const std::string& value);

  [[nodiscard]] const std::string& count() const { return count_; }
  [[nodiscard]] const std::string& inner() const { return inner_; }
  [[nodiscard]] const std::string& suffix() const { return suffix_; }

 private:
  std::string find(ScalarId id) const;
  std::string compute(ScalarId id, bool vector);
  std::string compute_vector_operation(const Scalar& scalar);
  std::string compute_scalar_operation(const Scalar& scalar);
  std::string cast_vector(const Scalar& scalar);
  std::string index_vector(const Index& index);
  std::string atom(const Atom& atom);
  std::string with_count(const std::string& arguments) const;
  // Where a kernel notes that an index was out of range.
  std::string failure_argument();
  // Whether an address changes from lane to lane in a way that no stride describes.
  bool is_lanewise(const Index& address) const;

  TextContext& context_;
  Block* parent_;
  LoopDepth depth_;
  std::string inner_;
  std::string count_;
  std::string suffix_;
  std::string outer_;
  std::unordered_map<ScalarId, std::string> names_;
};

/// A literal of `dtype`.
[[nodiscard]] std::string literal(const Scalar& constant);

}  // namespace kiln::codegen
