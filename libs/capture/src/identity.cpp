#include "kiln/capture/identity.hpp"

#include "value_table.hpp"

namespace kiln::capture {

bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) ||
         (memory_of(a) != nullptr && memory_of(a) == memory_of(b) &&
          a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() &&
          a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_conj() == b.is_conj() &&
          a.is_neg() == b.is_neg());
}

}  // namespace kiln::capture
