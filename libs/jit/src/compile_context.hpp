// What compiling the graphs of a function needs, and what it reports.

#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "function_entry.hpp"
#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// Of one function. A backward may be compiled when the function object is gone, so this can
/// outlive it. The report may be changed by several threads.
class CompileContext {
 public:
  explicit CompileContext(CompileOptions given);

  /// Changes the report.
  void note(const std::function<void(CompileReport&)>& change);
  [[nodiscard]] CompileReport report() const;

  const CompileOptions options;
  const std::shared_ptr<autograd_cache::Cache> cache;  ///< Null: there is none.

 private:
  mutable std::mutex report_lock_;
  CompileReport report_;
};

/// The compiler for a graph of the function: `given`, else the forward's that options have, else
/// the code generator. What that makes is added to `record`, which may be null.
[[nodiscard]] autograd_dispatch::Compiler graph_compiler(
    const std::shared_ptr<CompileContext>& context,
    const autograd_dispatch::Compiler& given,
    const std::shared_ptr<FunctionEntryBuilder>& record);

}  // namespace kiln
