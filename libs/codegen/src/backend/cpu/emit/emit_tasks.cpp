// Loops whose iterations threads share.

#include "backend/cpu/emit/kernel_emitter.hpp"

namespace kiln::codegen {

using ir::Expr;

namespace {

constexpr std::string_view kParallelFor = R"(extern "C" int omp_get_num_threads();
extern "C" int omp_get_thread_num();
template <class Tasks>
static inline void parallel_for(bool parallel, Index count, const Tasks& tasks) {
  if (!parallel) {
    tasks(0, count);
    return;
  }
#pragma omp parallel
  {
    const Index thread = omp_get_thread_num(), threads = omp_get_num_threads();
    tasks(count * thread / threads, count * (thread + 1) / threads);
  }
}
)";

}  // namespace

std::optional<KernelEmitter::Threshold> KernelEmitter::parallel_threshold() const {
  return parallel_ ? std::optional(Threshold{element_count(kernel_.extents), parallel_elements_})
                   : std::nullopt;
}

// OpenMP's own `if` makes a team of one thread, for which libgomp calls the system: it wakes
// whoever waits at the team's barrier.
void KernelEmitter::open_tasks(const std::string& variable,
                               const std::string& count,
                               const std::optional<Threshold>& threads) {
  std::string first = "0", last = count;
  shares_ = threads && !threads->work.is_constant();
  if (shares_) {
    uses_parallel_for_ = true;
    body_.open(
        "parallel_for($ > $, $, [buffers, sizes](Index first_task, Index last_task) "
        "__attribute__((noinline))",
        context_.text(threads->work),
        threads->enough,
        count);
    body_.line("(void)sizes;");
    name_operands();
    first = "first_task", last = "last_task";
  } else if (threads) {
    body_.directive("#pragma omp parallel for");
  }
  result_.uses_openmp = result_.uses_openmp || threads;
  body_.open("for (Index $ = $; $ < $; ++$)", variable, first, variable, last, variable);
}

void KernelEmitter::close_tasks() {
  body_.close();
  if (shares_) {
    body_.close("});");
    shares_ = false;
  }
}

std::string_view KernelEmitter::share_source() const {
  return uses_parallel_for_ ? kParallelFor : std::string_view();
}

}  // namespace kiln::codegen
