// How a call of a compiled function is put together from its compiled graphs: plain data, so that a
// cache can keep it.
//
// Three lists of tensors meet here. *Arguments* are what the caller passes: the function's own,
// then the captured tensors. *Inputs* are what the compiled graph takes: an argument, or the tensor
// that several arguments are views of. *Results* are what the compiled graph returns.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/expr.hpp"
#include "kiln/ir/graph.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::autograd_dispatch {

/// A window of a storage, in elements.
struct Geometry {
  std::vector<std::int64_t> sizes = {};    ///< One per dimension.
  std::vector<std::int64_t> strides = {};  ///< One per dimension.
  std::int64_t offset = 0;                 ///< Of the first element.

  bool operator==(const Geometry&) const = default;  ///< Member by member.
};

/// The same, if its numbers may depend on sizes of the call.
struct Window {
  std::vector<ir::Expr> sizes = {};    ///< One per dimension.
  std::vector<ir::Expr> strides = {};  ///< One per dimension.
  ir::Expr offset = 0;                 ///< Of the first element.
};

/// How a view is recreated from a tensor that it shares memory with.
struct ViewPlan {
  /// What autograd knows about the view.
  enum class History {
    kView,      ///< A differentiable view.
    kNoGrad,    ///< A view that was made with grad mode off.
    kDetached,  ///< Only the memory is shared.
  };
  History history = History::kView;  ///< How autograd sees it.
  /// The view operators that lead from the base to it. Nothing if they cannot be replayed or depend
  /// on sizes that vary: the view is then made from `window`.
  std::optional<ir::Graph> views = {};
  /// Its window; the offset is relative to that of the base.
  Window window = {};
};

/// Where one of the function's outputs comes from.
struct OutputPlan {
  /// The ways in which an output can come about.
  enum class Kind {
    kNone,             ///< Undefined.
    kComputed,         ///< Result `index`.
    kArgument,         ///< Argument `index` itself, the same object.
    kSameAs,           ///< The function's output `index` itself.
    kAliasOfArgument,  ///< Shares memory with argument `index`; made after arguments were updated.
    kAliasOfComputed,  ///< Shares memory with result `index`.
    kAliasOfOutput,    ///< Shares memory with the function's output `index`.
  };
  Kind kind = Kind::kComputed;  ///< Which way.
  std::uint32_t index = 0;      ///< As `kind` says.
  bool requires_grad = false;   ///< As in eager.
  ViewPlan view = {};           ///< For aliases.

  /// Whether it shares memory with something else.
  [[nodiscard]] bool is_alias() const {
    return kind == Kind::kAliasOfArgument || kind == Kind::kAliasOfComputed ||
           kind == Kind::kAliasOfOutput;
  }
};

/// Where a graph input comes from.
struct InputPlan {
  std::uint32_t argument = 0;  ///< Its position among the arguments.
  /// The input is not the argument but the tensor that it is a view of (or, if it is not a view,
  /// the argument: others are views of it), with this window on its storage.
  std::optional<Geometry> base = {};
};

/// New contents of a graph input.
struct WritePlan {
  std::uint32_t input = 0;  ///< Which input of the graph.
  /// The result that holds them; nothing if the graph writes them itself.
  std::optional<std::uint32_t> result = {};
  bool visible = false;  ///< Autograd sees the write: the input's history goes on through it.
};

/// What else happens to an argument.
struct ChangePlan {
  std::uint32_t argument = 0;                ///< Which one.
  std::optional<Geometry> geometry = {};     ///< Its window afterwards; offset from the old one's.
  bool visible = false;                      ///< Autograd sees the change of geometry.
  std::optional<std::uint32_t> memory = {};  ///< It moves onto the memory of `outputs[memory]`.
  bool starts_requiring_grad = false;        ///< It becomes a leaf that requires grad.
  bool touched = false;               ///< Nothing of it changes, but autograd counts a write.
  bool stops_requiring_grad = false;  ///< It loses its history.
  /// Its storage gets so many bytes: before the graph runs, or, if none, after everything else.
  std::optional<std::uint64_t> bytes = {};
};

/// Among arguments that share memory, how they do.
struct AliasPlan {
  std::uint32_t first = 0;    ///< The first argument on the same storage: itself, if there is none.
  std::uint32_t same_as = 0;  ///< The first argument that is the same object: itself, likewise.
  std::int64_t offset = 0;    ///< From the first's, in elements.
};

/// An argument whose storage offset is guarded, because the function addresses the storage directly
/// (`as_strided`).
struct OffsetPlan {
  std::uint32_t argument = 0;  ///< Which one.
  std::int64_t offset = 0;     ///< The required offset, in elements.
};

/// How a backward takes a tangent.
struct TangentPlan {
  std::vector<ir::Expr> sizes = {};       ///< As the graph was traced with.
  std::vector<ir::Expr> strides = {};     ///< Likewise.
  ir::DType dtype = ir::DType::kFloat32;  ///< Its element type.
  ir::Device device = {};                 ///< Where it is.
};

/// A saved tensor, and an input or a result that it may share memory with.
struct SharedSave {
  std::uint32_t saved = 0;  ///< Position of the saved tensor.
  std::uint32_t other = 0;  ///< Position of the other.
};

/// What the runtime knows of a forward and a backward once the joint graph was partitioned.
struct ForwardBackwardPlan {
  std::uint32_t saved = 0;  ///< Results of the forward, after the computed ones, for the backward.
  std::vector<TangentPlan> tangents = {};  ///< As in `Plan::tangents`.
  /// Where symbols are read: sizes of graph inputs. Empty if no size varies.
  std::vector<ir::SymbolSource> symbols = {};
  /// Integers that the backward takes, each as a tensor, before the saved tensors.
  std::vector<ir::Expr> saved_sizes = {};
  std::vector<bool> has_gradient = {};  ///< By `Plan::gradients`: the backward computes it.
  /// Whether a saved tensor depends on what is differentiated, so that gradients do.
  bool saves_differentiated = false;
  std::vector<SharedSave> saved_on_input = {};   ///< Those with inputs.
  std::vector<SharedSave> saved_on_result = {};  ///< Those with results.
};

/// The runtime's part of a compiled function.
struct Plan {
  std::uint32_t arguments = 0;         ///< How many there are.
  std::uint32_t captured = 0;          ///< How many of them, at the end, are captured tensors.
  std::vector<InputPlan> inputs = {};  ///< By graph input.
  /// The function's own, then the new memories that `changes` mention.
  std::vector<OutputPlan> outputs = {};
  std::uint32_t returned = 0;  ///< How many outputs are the function's own.
  /// Results of the compiled forward that are not saved for the backward.
  std::uint32_t computed = 0;
  /// Further results, made beside the graph's: each shares memory with an input but has a gradient
  /// of its own (a custom autograd function that returns its input). `index` is the input.
  std::vector<OutputPlan> node_aliases = {};
  /// For each tangent of the backward: the result it belongs to.
  std::vector<std::uint32_t> tangents = {};
  /// For each gradient the backward returns: the input it belongs to.
  std::vector<std::uint32_t> gradients = {};
  /// For each of them: the tangents that autograd reaches it from. If none of those is there, there
  /// is no gradient either.
  std::vector<std::vector<std::uint32_t>> reached_by = {};
  /// Inputs that the backward writes when it runs. Their new contents are what it returns after the
  /// gradients.
  std::vector<std::uint32_t> backward_writes = {};

  std::vector<WritePlan> writes = {};    ///< What a call writes into its inputs.
  std::vector<ChangePlan> changes = {};  ///< What else it does to its arguments.
  /// Where windows of outputs read symbols: sizes of graph inputs. `dispatch` fills it in.
  std::vector<ir::SymbolSource> symbols = {};
  std::vector<AliasPlan> aliases = {};       ///< By argument; empty if none share memory.
  std::vector<OffsetPlan> offsets = {};      ///< Arguments whose storage offset is guarded.
  std::vector<bool> requires_grad = {};      ///< By argument.
  std::optional<bool> grad_mode_after = {};  ///< The function leaves grad mode so.
  bool grad_mode = true;                     ///< Grad mode when it was traced.
  bool deterministic = false;                ///< Whether deterministic algorithms were on.
  /// `dispatch` fills it in; empty where nothing is differentiable.
  ForwardBackwardPlan forward_backward = {};
};

}  // namespace kiln::autograd_dispatch
