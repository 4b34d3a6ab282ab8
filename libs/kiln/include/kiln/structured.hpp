// Calls with structured arguments: tuples, lists, dictionaries, None and numbers as `c10::IValue`.
//
// Whoever calls these includes <ATen/core/ivalue.h>, or all of torch, too.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kiln/compile.hpp"
#include "kiln/model.hpp"

namespace c10 {
struct IValue;
}

namespace kiln {

using Values = std::vector<c10::IValue>;
using ValueFunction = std::function<c10::IValue(const Values&)>;
using NamedValues = std::map<std::string, c10::IValue>;

/// Calls a model as the program that it was compiled from was called: arguments are taken apart by
/// its call spec, named ones in the spec's order whatever theirs is, and the result is put together
/// again. Arguments that are no tensors were fixed when it was compiled, and are not passed on.
///
/// Throws `Error` with `kInvalidArgument`, saying where, if the arguments are nested in another way
/// than the spec says.
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments, const NamedValues& named);
[[nodiscard]] c10::IValue call(Model& model, const Values& arguments);

/// A compiled function of structured values. Copies share what they compiled; callable from many
/// threads. One that `compile_structured` did not make is empty: all members throw `Error` with
/// `kInvalidArgument`.
class StructuredFunction {
 public:
  /// Runs on `arguments`. Guarded, beside what `Function` guards: how they are nested, and whatever
  /// in them is no tensor.
  ///
  /// Throws what `Function` throws, and `Error` with `kUnsupported` for a value that is neither a
  /// tensor, a number, a string, None nor a tuple, list or dictionary of such.
  c10::IValue operator()(const Values& arguments) const;

  /// One report for each way in which arguments were nested so far.
  [[nodiscard]] std::vector<CompileReport> reports() const;

 private:
  friend StructuredFunction compile_structured(std::shared_ptr<torch::nn::Module> module,
                                               ValueFunction fn,
                                               CompileOptions options);
  struct State;
  [[nodiscard]] State& state() const;
  std::shared_ptr<State> state_;
};

/// Compiles `fn` when it is first called. `module`, which may be null, is guarded as `compile`
/// does. `options.max_versions` is for each way in which arguments are nested; `options.identity`
/// is not used: the structure of the result is known from a trace only.
[[nodiscard]] StructuredFunction compile_structured(std::shared_ptr<torch::nn::Module> module,
                                                    ValueFunction fn,
                                                    CompileOptions options = default_options());

}  // namespace kiln
