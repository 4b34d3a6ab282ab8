#include "compile_context.hpp"

#include <string>
#include <utility>

#include "kiln/base/log.hpp"
#include "kiln/jit/cache_use.hpp"
#include "kiln/jit/model_library.hpp"
#include "slow_notice.hpp"

namespace kiln {

CompileContext::CompileContext(CompileOptions given)
    : options(std::move(given)), cache(open_cache(options)) {}

void CompileContext::note(const std::function<void(CompileReport&)>& change) {
  const std::lock_guard lock(report_lock_);
  change(report_);
}

CompileReport CompileContext::report() const {
  const std::lock_guard lock(report_lock_);
  return report_;
}

namespace {

autograd_dispatch::Compiler code_generator(const std::shared_ptr<CompileContext>& context,
                                           const std::shared_ptr<FunctionEntryBuilder>& record) {
  return [context, record](const ir::Graph& graph) {
    GraphReport done;
    SlowNotice notice("compiling the " + graph.name() + " graph of a function, " +
                      std::to_string(graph.nodes().size()) + " operators,");
    CompileOptions options = context->options;
    options.progress = [&](const Progress& progress) {
      notice.set_stage(progress);
      if (context->options.progress) {
        context->options.progress(progress);
      }
    };
    LoadedGraph compiled = compile_graph(graph, options, context->cache.get(), done);
    KILN_LOG(
        kInfo,
        "kiln",
        done.name << ": " << done.nodes << " nodes, "
                  << (done.cache_hit ? "from the cache" : std::to_string(done.kernels) + " kernels")
                  << ", " << done.compile_ms + done.load_ms << " ms");
    context->note([&](CompileReport& report) {
      report.compiles += done.cache_hit ? 0 : 1;
      report.graphs.push_back(std::move(done));
    });
    if (record && compiled.entry) {
      record->add_graph(graph.name(), std::move(*compiled.entry));
    }
    return std::move(compiled.run);
  };
}

}  // namespace

autograd_dispatch::Compiler graph_compiler(const std::shared_ptr<CompileContext>& context,
                                           const autograd_dispatch::Compiler& given,
                                           const std::shared_ptr<FunctionEntryBuilder>& record) {
  const autograd_dispatch::Compiler& own = given ? given : context->options.forward_compiler;
  if (!own) {
    return code_generator(context, record);
  }
  return [context, own](const ir::Graph& graph) {
    context->note([](CompileReport& report) { ++report.compiles; });
    return own(graph);
  };
}

}  // namespace kiln
