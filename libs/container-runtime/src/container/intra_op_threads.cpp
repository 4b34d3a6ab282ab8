#include "container/intra_op_threads.hpp"

#include <algorithm>

// Weak: they are there if the model or libtorch links an OpenMP runtime, whichever it is.
extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int count);
}

namespace kiln::container {

void IntraOpThreads::divide(std::size_t sharers) noexcept {
  if (omp_get_max_threads == nullptr || omp_set_num_threads == nullptr) {
    return;
  }
  const int all = omp_get_max_threads();
  const int share = std::max(1, all / static_cast<int>(sharers));
  if (share != all) {
    before_ = all;
    omp_set_num_threads(share);
  }
}

void IntraOpThreads::restore() noexcept {
  omp_set_num_threads(before_);
}

}  // namespace kiln::container
