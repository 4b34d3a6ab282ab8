// The program as one C++ translation unit without includes: an instance with its memory and
// tensors, the steps of a run, and the table that the container reads.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "kiln/codegen/compile.hpp"
#include "program/program.hpp"
#include "text/code_writer.hpp"

namespace kiln::codegen {

/// Where a constant lies in the weights.
struct ConstantPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What the table says beyond what the program itself tells.
struct ModelDescription {
  std::string in_spec;
  std::string out_spec;
  std::string cpu_features;
  bool check_inputs = true;
  bool record_kernels = false;           ///< Steps are ranges of PyTorch's profiler.
  bool waits_for_indices = false;        ///< A run tells of its own indices out of range.
  LibtorchVersion libtorch = {};         ///< What is to run it.
  std::vector<ConstantPlace> constants;  ///< In the order of `Program::constants`.
  std::size_t folded = 0;                ///< So many of them, at the end, are computed.
  std::uint64_t weights_bytes = 0;
};

/// A program as text.
struct ProgramText {
  std::string source;  ///< The translation unit.
  std::string
      extern_nodes;  ///< JSON for the host's proxy executor; empty if the program needs none.
};

/// The functions of the kernels for one instruction set: of the program's `Schedule::kernels`, then
/// of those of what folds its constants.
struct KernelSet {
  std::string cpu_features;
  std::vector<std::string> names;
  std::vector<std::string> loaders = {};  ///< As `KernelUnits::loaders`.
};

/// Writes the program, and what folds its constants, if anything does. Of several sets of kernels
/// the program takes the last that its machine can run.
[[nodiscard]] ProgramText emit_program(const Program& program,
                                       const Program* fold,
                                       const std::vector<KernelSet>& kernels,
                                       const DeviceOperations& operations,
                                       const ModelDescription& description);

/// Whether all numbers of a list are constant. Such a list becomes a table, any other a member of
/// the instance.
[[nodiscard]] inline bool is_fixed(const std::vector<ir::Expr>& list) {
  return std::ranges::all_of(list, [](const ir::Expr& number) { return number.is_constant(); });
}

/// What the steps share while they are written: the names of things that are defined elsewhere in
/// the unit.
class Emission {
 public:
  Emission(const Program& program, const DeviceOperations& operations);

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const DeviceOperations& operations() const { return operations_; }
  [[nodiscard]] CodeWriter& text() { return text_; }

  /// An integer as an expression.
  [[nodiscard]] std::string number(const ir::Expr& expr) const;
  [[nodiscard]] std::string number(const ir::RealExpr& real) const;
  /// A named array of integers, or "nullptr" for none.
  [[nodiscard]] std::string list(const std::vector<ir::Expr>& values);
  /// The tensor of `value`; writes the statement that creates it if that is not done yet. If
  /// `owning`, the tensor keeps its memory alive.
  [[nodiscard]] std::string tensor(ir::ValueId value, bool owning = false);
  /// A handle on the value that requires no gradient, whatever the caller's tensor does.
  [[nodiscard]] std::string detached(ir::ValueId value);
  /// A handle that lives until `release_scratch`, or until the run fails.
  [[nodiscard]] std::string scratch();
  /// Writes the statements that free every `scratch` since the last call.
  void release_scratch();
  /// The offset of element `offset` of a buffer, in bytes.
  [[nodiscard]] std::string byte_offset(BufferId buffer, const ir::Expr& offset) const;
  /// A pointer to element `offset` of a buffer.
  [[nodiscard]] std::string pointer(BufferId buffer, const ir::Expr& offset) const;
  /// The instance's own handle on a buffer that is allocated in each run.
  [[nodiscard]] std::string owned(BufferId buffer) const;
  /// Its position in `m.owned`.
  [[nodiscard]] std::uint32_t owned_index(BufferId buffer) const {
    return owned_index_[buffer.index()];
  }
  /// Writes the statement that allocates such a buffer.
  void allocate(BufferId buffer);
  /// Declares the shim's function `name` for this device ("mm_out") and returns its full name.
  std::string declare_for_device(const std::string& name, const std::string& parameters);
  /// Declares `result name(parameters)` of the shim and returns `name`.
  std::string declare(const std::string& name,
                      const std::string& parameters,
                      const std::string& result = "int");
  /// The offset of `view` in its buffer, in bytes.
  [[nodiscard]] std::string byte_offset(const View& view) const;
  /// The statement that creates `view`.
  [[nodiscard]] std::string make_view(std::uint32_t view);

  [[nodiscard]] const std::map<std::string, std::string>& declarations() const {
    return declarations_;
  }
  /// Functions of the shim that are looked up: "int (*name)(parameters)" by their names.
  [[nodiscard]] const std::map<std::string, std::string>& lookups() const { return lookups_; }
  [[nodiscard]] const std::vector<std::vector<ir::Expr>>& lists() const { return lists_; }
  [[nodiscard]] std::uint32_t owned_count() const { return owned_count_ + most_scratch_; }
  /// Set by the first call that goes through the dispatcher.
  bool uses_dispatcher = false;
  /// Steps are ranges of PyTorch's profiler.
  bool record_kernels = false;
  /// Inputs that are addressed through their storage must have the offsets of the example.
  bool checks_places = false;
  /// The end of a run waits until its kernels have checked all indices.
  bool waits_for_indices = false;
  /// The number of a kernel among those that check indices; nothing if it does not.
  [[nodiscard]] std::optional<std::size_t> flag(std::uint32_t kernel) const;
  /// How many kernels check indices.
  [[nodiscard]] std::size_t flag_count() const;
  /// The libtorch that will run the program.
  LibtorchVersion libtorch = {};
  /// Kernels are called through a table that is chosen when the library is loaded.
  bool selects_kernels = false;
  /// What the proxy executor must know about each call that goes through it.
  std::vector<std::string> proxy_nodes;

 private:
  [[nodiscard]] std::string whole(BufferId buffer) const;
  [[nodiscard]] std::string reinterpreted(const Location& location);

  const Program& program_;
  const DeviceOperations& operations_;
  CodeWriter text_;
  std::map<std::string, std::string> declarations_;
  std::map<std::string, std::string> lookups_;
  std::vector<std::vector<ir::Expr>> lists_;
  std::map<std::string, std::size_t> list_index_;
  std::vector<std::uint32_t> owned_index_;
  std::uint32_t owned_count_ = 0;
  std::vector<bool> has_view_;
  std::uint32_t scratch_ = 0;
  std::uint32_t most_scratch_ = 0;
};

// The parts of the unit, a file each.

/// Writes the functions that run the steps and returns their names.
[[nodiscard]] std::vector<std::string> emit_steps(Emission& emission,
                                                  std::span<const std::string> kernel_names);
/// Writes `load`: what an instance needs of the process, kernels on its device and functions that
/// libtorch may not have.
void emit_load(CodeWriter& text,
               const std::map<std::string, std::string>& lookups,
               const KernelSet& kernels,
               const DeviceOperations& operations);
/// Writes the struct `Instance`.
void emit_instance(CodeWriter& text, const Emission& emission);
/// Writes `create` and `destroy`.
void emit_lifecycle(CodeWriter& text, const Emission& emission);
/// Writes `run`, which calls the functions `parts`.
void emit_run(CodeWriter& text, const Emission& emission, const std::vector<std::string>& parts);
/// Writes what reads the symbols and checks the inputs against them; if a symbol changed,
/// everything that depends on sizes is made anew.
void emit_symbols(Emission& emission);
/// Writes `begin` (inputs) and `finish` (outputs, mutations).
void emit_prologue_epilogue(Emission& emission);
/// Writes `prepare`: the arena and the tensors on it, once if sizes are fixed, else whenever a
/// symbol changes.
void emit_prepare(CodeWriter& text, Emission& emission);
/// Writes the table `kiln_model`.
void emit_table(CodeWriter& text, const Emission& emission, const ModelDescription& description);

}  // namespace kiln::codegen
