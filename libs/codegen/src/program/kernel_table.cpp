#include "program/kernel_table.hpp"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

// "aten.add.Tensor (encoder.0), aten.relu.default"
std::string comment_of(const ir::Graph& graph, const std::vector<ir::NodeId>& nodes) {
  std::string comment;
  for (const ir::NodeId node : nodes) {
    const std::string& path = graph.node(node).provenance.module_path;
    comment += (comment.empty() ? "" : ", ") + graph.node(node).target +
               (path.empty() ? "" : " (" + path + ")");
  }
  return comment;
}

class KernelWriter {
 public:
  KernelWriter(const ir::Graph& graph, const Schedule& schedule, const Backend& backend)
      : graph_(graph), schedule_(schedule), backend_(backend) {
    table_.by_target.resize(backend.target_count());
  }

  KernelTable run() {
    for (const Step& step : schedule_.steps) {
      KernelUse& use = table_.uses.emplace_back();
      if (const auto* call = std::get_if<KernelCall>(&step)) {
        use = write(*call);
      }
    }
    return std::move(table_);
  }

 private:
  KernelUse write(const KernelCall& call) {
    KernelUse use;
    std::vector<KernelSource> versions;
    std::vector<std::string> sources;
    for (std::size_t target = 0; target < backend_.target_count(); ++target) {
      versions.push_back(source_of(call, target, use.sizes));
      sources.push_back(versions.back().source + versions.back().launcher);
      ensure(versions.back().checks_indices == versions[0].checks_indices,
             "what a kernel checks depends on its target");
    }
    const std::string comment = comment_of(graph_, call.nodes);
    const auto [found, is_new] =
        known_.emplace(std::move(sources), static_cast<std::uint32_t>(known_.size()));
    use.kernel = found->second;
    for (std::size_t target = 0; target < versions.size(); ++target) {
      std::vector<KernelSource>& kernels = table_.by_target[target];
      if (is_new) {
        kernels.push_back(std::move(versions[target]));
        kernels.back().comment = comment;
      } else {
        kernels[use.kernel].comment += "; " + comment;
      }
    }
    return use;
  }

  KernelSource source_of(const KernelCall& call, std::size_t target, std::vector<ir::Expr>& sizes) {
    if (const auto* nest = std::get_if<LoopNest>(&call.computation)) {
      return backend_.emit(schedule_.program, *nest, target, sizes);
    }
    const auto& library = std::get<LibraryCall>(call.computation);
    sizes = library.parameters;
    return backend_.emit(library, target);
  }

  const ir::Graph& graph_;
  const Schedule& schedule_;
  const Backend& backend_;
  KernelTable table_;
  std::map<std::vector<std::string>, std::uint32_t> known_;  // By the sources for all targets.
};

}  // namespace

KernelTable write_kernels(const ir::Graph& graph,
                          const Schedule& schedule,
                          const Backend& backend) {
  return KernelWriter(graph, schedule, backend).run();
}

}  // namespace kiln::codegen
