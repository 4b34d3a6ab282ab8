// The tracer: from a running program to a graph.
//
// The function runs on real tensors, once, and every operator that reaches the backends is written
// down: below autograd and autocast, so gradients and casts are ordinary operators. The graph is
// what happened, views and mutations included; `ir::functionalize` makes it functional.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"

namespace kiln::capture {

/// The arguments or the results of a function.
using Tensors = std::vector<at::Tensor>;
/// A function of tensors.
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// How a function is recorded.
struct RecordOptions {
  /// Run on shadows of the inputs: when `record` returns or throws, inputs, captured buffers and
  /// generators are as before. Otherwise the trace is the call itself.
  bool on_shadow_inputs = true;
  /// Allow reads of a tensor's value (`item()`); the value is then fixed in the graph.
  bool allow_value_reads = false;
  /// Record above autograd and autocast, where composite operators (linear, matmul, conv2d) are
  /// still whole, and write each change of grad mode down as a node
  /// `kiln.set_grad_enabled.default`.
  bool pre_dispatch = false;
  /// Look for values that are read without going through the dispatcher (`x.data_ptr<float>()[0]`,
  /// an accessor) and so become constants of the graph, or decide which branch it has: record a
  /// second time, on perturbed data, and throw where the two graphs differ.
  ///
  /// Other data are inputs and captured tensors of the same geometry: floating-point numbers of the
  /// other sign and size, booleans negated, integers in another order, so that an index stays
  /// within bounds. If the program throws on them, integers are left alone; if it still does, every
  /// number is only made a little smaller. Random numbers are the same in both runs. Captured
  /// tensors have the other data while the second run lasts: no other thread may use them then.
  bool check_hidden_reads = false;
  /// Compute next to nothing: for who wants the graph alone, in a trace on shadow inputs. Results
  /// have sizes, strides and a type but no elements, and whoever asks for those gets an exception,
  /// so that the graph is that of a trace with values or there is none. Computed is what does not
  /// depend on an input, and integers and booleans as far as they do not come from numbers that are
  /// not. A program that looks at elements throws, and is to be recorded with values.
  bool without_values = false;
  /// Let the program read and return memory that no operator has written (`at::empty`). Otherwise
  /// that is an error: most likely the program filled it through a raw pointer, which no graph has.
  bool allow_uninitialized = false;
  /// Called with each captured tensor when it is first used, before the operator that uses it runs.
  std::function<void(const at::Tensor&)> on_capture = {};
};

/// A trace.
struct Recording {
  /// Inputs: one of kind `kUser` per function input, then one of kind `kConstant` per captured
  /// tensor. Outputs: one of kind `kUser` per returned tensor (invalid where it is undefined).
  ir::Graph graph;
  /// Tensors that the function used and that were no inputs, in order of first use.
  Tensors captured;
  /// What the function returned (computed from the shadows, if it ran on shadow inputs; without
  /// elements, if there are no values).
  Tensors outputs;
  /// The program may have kept tensors in objects of its own. Called when whatever the trace
  /// returned is gone, except `returned`, it gives such tensors values if they have none, and
  /// returns the operators that made those which depend on inputs.
  std::function<std::vector<std::string>(const Tensors& returned)> compute_escaped;
  /// The graph has effects (`declare_effect`) that did not happen, because a trace on shadow inputs
  /// is not the call.
  bool deferred_effects = false;
  /// Operators with an effect that had to be called all the same, for their results.
  std::vector<std::string> repeated_effects;
};

/// Runs `function` on `inputs` and records it.
///
/// Throws `Error` with `kUnsupported` naming the operator if the program reads a value, has a
/// shape that depends on data, or uses memory that it has not written with operators; with
/// `kInvalidArgument` if, before dispatch, it writes what an operator returned that may return its
/// argument (dropout that drops nothing). With `check_hidden_reads` also with `kUnsupported`,
/// naming the first operator and argument that depend on data and where in the program they are.
/// Whatever the function itself throws passes through.
[[nodiscard]] Recording record(const TensorFunction& function,
                               const Tensors& inputs,
                               const RecordOptions& options = {});

/// Whether the calling thread is recording.
[[nodiscard]] bool is_recording();

/// For programs that know they are being recorded (joint tracing): the tensors captured so far.
[[nodiscard]] Tensors captured_so_far();

/// Likewise: how many references there are to each captured tensor on memory that nobody owns
/// (`from_blob`), in the order of their capture.
[[nodiscard]] std::vector<std::size_t> references_to_borrowed();

/// Likewise: throws `Error` with `kUnsupported` if only the trace still holds one of these, and
/// `held` references of each by its caller. Its memory may be gone.
void require_lasting_memory(const std::vector<std::size_t>& held);

/// Likewise: captures `tensor` if the trace does not know it.
void note_use(const at::Tensor& tensor);

/// Likewise: whether an operator recorded so far wrote elements of `storage`.
[[nodiscard]] bool is_written(const c10::Storage& storage);

/// Likewise: makes `tensor`, new to the trace, a further graph input of `kind`.
void declare_input(const at::Tensor& tensor, ir::InputKind kind);

/// Likewise: some tensor in the layout of `tensor` that the trace does not know yet. It is ones, or
/// has no elements in a trace without values.
[[nodiscard]] at::Tensor make_placeholder_like(const at::Tensor& tensor);

/// While it lives, nothing that this thread does is recorded.
class PauseRecording {
 public:
  PauseRecording();
  ~PauseRecording();
  PauseRecording(const PauseRecording&) = delete;
  PauseRecording& operator=(const PauseRecording&) = delete;

 private:
  bool below_;
  bool above_;
};

/// Grad mode is `enabled` while it lives.
///
/// A trace before dispatch writes both changes down, as they stand in the program. It sees those of
/// `c10::AutoGradMode` too, but only where an operator follows.
class GradModeScope {
 public:
  explicit GradModeScope(bool enabled);  ///< Sets grad mode until it ends, and has the graph know.
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool previous_;
};

/// While it lives, nodes recorded on this thread are marked as backward (`ir::Node::backward`).
class BackwardScope {
 public:
  BackwardScope();
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  bool previous_;
};

/// While it lives, operators recorded on this thread have effects (kiln/capture/effects.hpp), as an
/// archive says of some of its calls.
class EffectScope {
 public:
  EffectScope();
  ~EffectScope();
  EffectScope(const EffectScope&) = delete;
  EffectScope& operator=(const EffectScope&) = delete;

 private:
  bool previous_ = false;
};

/// While it lives, nodes recorded on this thread carry `path` in their provenance.
class ModuleScope {
 public:
  /// What runs until it ends belongs to the module `path`.
  explicit ModuleScope(const std::string& path);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  std::string previous_;
};

/// While it lives, nodes recorded on this thread say that they come from this line, or from
/// `source`. So do the nodes of the gradients that they cause.
class SourceScope {
 public:
  /// What runs until it ends was written here.
  explicit SourceScope(std::source_location here = std::source_location::current());
  explicit SourceScope(std::string source);  ///< The same, in words of your own.
  ~SourceScope();
  SourceScope(const SourceScope&) = delete;
  SourceScope& operator=(const SourceScope&) = delete;

 private:
  std::string previous_;
};

}  // namespace kiln::capture
