#include "view_operators.hpp"

#include <numeric>
#include <random>
#include <set>

namespace kiln::capture {
namespace {

using torch::Tensor;

bool give(const Context& c, const Tensor& tensor) {
  c.pool.push_back(tensor);
  return true;
}

bool give(const Context& c, const Tensors& tensors) {
  c.pool.insert(c.pool.end(), tensors.begin(), tensors.end());
  return true;
}

std::set<std::int64_t> positions(at::IntArrayRef sizes,
                                 at::IntArrayRef strides,
                                 std::int64_t offset) {
  std::set<std::int64_t> all = {offset};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::set<std::int64_t> next;
    for (std::int64_t i = 0; i < sizes[d]; ++i) {
      for (const std::int64_t position : all) {
        next.insert(position + i * strides[d]);
      }
    }
    all = std::move(next);
  }
  return all;
}

std::set<std::int64_t> positions(const Tensor& tensor) {
  return positions(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

/// Eager leaves open what a write does where elements share memory.
bool writable(const Tensor& tensor) {
  return static_cast<std::int64_t>(positions(tensor).size()) == tensor.numel();
}

/// A tensor to combine with `self`: never one that overlaps it in part, which eager leaves open.
Tensor operand(const Context& c) {
  const Tensor& other = c.other();
  return other.is_same(c.self()) || !other.is_alias_of(c.self()) ? other : other.clone();
}

/// Conversions to integers of what does not fit are undefined.
bool converts(const Tensor& from, const Tensor& to) {
  return from.scalar_type() == to.scalar_type() || at::isIntegralType(from.scalar_type(), true) ||
         !at::isIntegralType(to.scalar_type(), true);
}

std::int64_t capacity(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.storage().nbytes()) / tensor.itemsize();
}

/// Sizes, strides and offset within the storage.
struct Window {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset;
};

Window window(const Context& c) {
  Window w{{1 + c.below(2, 3), 1 + c.below(3, 3)}, {c.below(4, 5), 1 + c.below(5, 2)}, 0};
  const std::int64_t span = (w.sizes[0] - 1) * w.strides[0] + (w.sizes[1] - 1) * w.strides[1] + 1;
  w.offset = c.below(1, capacity(c.self()) - span + 1);
  return w;
}

/// Whether some tensors of the program, together, hold all elements of the window. What lies
/// between the elements of an argument was not handed to the program.
bool fits(const Context& c, const Window& w) {
  const Tensor& self = c.self();
  std::set<std::int64_t> known;
  for (const Tensor& tensor : c.pool) {
    if (tensor.is_alias_of(self) && tensor.scalar_type() == self.scalar_type()) {
      known.merge(positions(tensor));
    }
  }
  const std::set<std::int64_t> wanted = positions(w.sizes, w.strides, w.offset);
  return std::includes(known.begin(), known.end(), wanted.begin(), wanted.end());
}

std::vector<std::int64_t> permutation(const Context& c) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(c.self().dim()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::minstd_rand(c.number(2)));
  return order;
}

/// The same elements with a dimension cut in two, or with two put together.
std::vector<std::int64_t> other_sizes(const Context& c) {
  std::vector<std::int64_t> sizes = c.self().sizes().vec();
  const auto at = sizes.begin() + c.dim();
  if (sizes.empty()) {
    return {1};
  }
  for (const std::int64_t part : {2, 3}) {
    if (c.number(3) % 2 == 0 && *at > part && *at % part == 0) {
      *at /= part;
      sizes.insert(at + 1, part);
      return sizes;
    }
  }
  if (at + 1 != sizes.end()) {
    *at *= *(at + 1);
    sizes.erase(at + 1);
  }
  return sizes;
}

std::vector<std::int64_t> expanded_sizes(const Context& c) {
  std::vector<std::int64_t> sizes = c.self().sizes().vec();
  for (std::int64_t& size : sizes) {
    size = size == 1 ? 1 + c.below(3, 3) : -1;
  }
  if (c.number(4) % 2 == 0) {
    sizes.insert(sizes.begin(), 1 + c.below(5, 2));
  }
  return sizes;
}

at::ScalarType reinterpreted(const Context& c) {
  const at::ScalarType types[] = {at::kInt, at::kFloat, at::kShort, at::kDouble, at::kLong};
  return types[c.number(3) % 5];
}

Tensor mask(const Tensor& tensor) {
  return torch::arange(tensor.numel(), torch::kLong).remainder(2).eq(0).view(tensor.sizes());
}

template <class Write>
bool write(const Context& c, const Write& by) {
  if (!writable(c.self())) {
    return false;
  }
  by(c.self());
  return true;
}

}  // namespace

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = {
      {"view", [](const Context& c) { return give(c, c.self().view(other_sizes(c))); }},
      {"reshape", [](const Context& c) { return give(c, c.self().reshape(other_sizes(c))); }},
      {"flatten", [](const Context& c) { return give(c, c.self().flatten()); }},
      {"transpose",
       [](const Context& c) { return give(c, c.self().transpose(c.dim(), c.dim(3))); }},
      {"permute", [](const Context& c) { return give(c, c.self().permute(permutation(c))); }},
      {"t", [](const Context& c) { return give(c, c.self().t()); }},
      {"slice",
       [](const Context& c) {
         const std::int64_t size = c.self().size(c.dim());
         const std::int64_t start = c.below(3, size + 1);
         return give(c, c.self().slice(c.dim(), start, size - c.below(4, 2), 1 + c.below(5, 3)));
       }},
      {"select",
       [](const Context& c) {
         return give(c, c.self().select(c.dim(), c.below(3, c.self().size(c.dim()))));
       }},
      {"expand", [](const Context& c) { return give(c, c.self().expand(expanded_sizes(c))); }},
      {"squeeze", [](const Context& c) { return give(c, c.self().squeeze()); }},
      {"squeeze.dim", [](const Context& c) { return give(c, c.self().squeeze(c.dim())); }},
      {"unsqueeze",
       [](const Context& c) {
         return give(c, c.self().unsqueeze(c.below(2, c.self().dim() + 1)));
       }},
      {"split",
       [](const Context& c) { return give(c, c.self().split(1 + c.below(3, 3), c.dim())); }},
      {"split_with_sizes",
       [](const Context& c) {
         const std::int64_t first = c.below(3, c.self().size(c.dim()) + 1);
         return give(c,
                     c.self().split_with_sizes({first, c.self().size(c.dim()) - first}, c.dim()));
       }},
      {"chunk",
       [](const Context& c) { return give(c, c.self().chunk(1 + c.below(3, 3), c.dim())); }},
      {"unbind", [](const Context& c) { return give(c, c.self().unbind(c.dim())); }},
      {"diagonal",
       [](const Context& c) {
         return give(c, c.self().diagonal(c.below(4, 5) - 2, c.dim(), c.dim(3)));
       }},
      {"as_strided",
       [](const Context& c) {
         const Window w = window(c);
         return fits(c, w) && give(c, c.self().as_strided(w.sizes, w.strides, w.offset));
       }},
      {"unfold",
       [](const Context& c) {
         return give(c, c.self().unfold(c.dim(), 1 + c.below(3, 3), 1 + c.below(4, 3)));
       }},
      {"alias", [](const Context& c) { return give(c, c.self().alias()); }},
      {"detach", [](const Context& c) { return give(c, c.self().detach()); }},
      {"view_as_real", [](const Context& c) { return give(c, torch::view_as_real(c.self())); }},
      {"view_as_complex",
       [](const Context& c) { return give(c, torch::view_as_complex(c.self())); }},
      {"conj", [](const Context& c) { return give(c, c.self().conj()); }},
      {"imag", [](const Context& c) { return give(c, torch::imag(c.self())); }},
      {"_neg_view",
       [](const Context& c) {
         return c.self().scalar_type() != at::kBool && give(c, torch::_neg_view(c.self()));
       }},
      {"view.dtype", [](const Context& c) { return give(c, c.self().view(reinterpreted(c))); }},

      {"t_", [](const Context& c) { return c.self().t_().defined(); }},
      {"transpose_",
       [](const Context& c) { return c.self().transpose_(c.dim(), c.dim(3)).defined(); }},
      {"squeeze_", [](const Context& c) { return c.self().squeeze_(c.dim()).defined(); }},
      {"unsqueeze_", [](const Context& c) { return c.self().unsqueeze_(c.dim()).defined(); }},
      {"as_strided_",
       [](const Context& c) {
         const Window w = window(c);
         return fits(c, w) && c.self().as_strided_(w.sizes, w.strides, w.offset).defined();
       }},
      {"resize_",
       [](const Context& c) {
         const std::int64_t count = 1 + c.below(2, 6);
         return fits(c, {{count}, {1}, c.self().storage_offset()}) &&
                c.self().resize_({count}).defined();
       }},
      {"set_",
       [](const Context& c) {
         return c.self().scalar_type() == c.other().scalar_type() &&
                c.self().set_(c.other()).defined();
       }},

      {"add_", [](const Context& c) { return write(c, [&](Tensor& t) { t.add_(operand(c)); }); }},
      {"add_.Scalar",
       [](const Context& c) { return write(c, [&](Tensor& t) { t.add_(c.number(2) % 4); }); }},
      {"mul_.Scalar", [](const Context& c) { return write(c, [](Tensor& t) { t.mul_(2); }); }},
      {"neg_", [](const Context& c) { return write(c, [](Tensor& t) { t.neg_(); }); }},
      {"relu_", [](const Context& c) { return write(c, [](Tensor& t) { t.relu_(); }); }},
      {"zero_", [](const Context& c) { return write(c, [](Tensor& t) { t.zero_(); }); }},
      {"fill_",
       [](const Context& c) { return write(c, [&](Tensor& t) { t.fill_(c.number(2) % 9); }); }},
      {"copy_",
       [](const Context& c) {
         return converts(c.other(), c.self()) && write(c, [&](Tensor& t) { t.copy_(operand(c)); });
       }},
      {"masked_fill_",
       [](const Context& c) { return write(c, [](Tensor& t) { t.masked_fill_(mask(t), 7); }); }},
      {"index_fill_",
       [](const Context& c) {
         return write(c, [&](Tensor& t) { t.index_fill_(c.dim(), torch::tensor({0}), 3); });
       }},
      {"index_put_",
       [](const Context& c) {
         return write(c, [&](Tensor& t) {
           t.index_put_({torch::tensor({0})}, torch::ones({}, t.options()));
         });
       }},
      {"tril_", [](const Context& c) { return write(c, [](Tensor& t) { t.tril_(); }); }},
      {"cumsum_",
       [](const Context& c) { return write(c, [&](Tensor& t) { t.cumsum_(c.dim()); }); }},
      {"clamp_", [](const Context& c) { return write(c, [](Tensor& t) { t.clamp_(-5, 5); }); }},
      {"addcmul_",
       [](const Context& c) {
         const Tensor by = operand(c);
         return !by.is_complex() && write(c, [&](Tensor& t) { t.addcmul_(by, by, 1); });
       }},
      {"eq_", [](const Context& c) { return write(c, [](Tensor& t) { t.eq_(1); }); }},
      {"conj_physical_",
       [](const Context& c) { return write(c, [](Tensor& t) { t.conj_physical_(); }); }},
      {"add.out",
       [](const Context& c) {
         return c.self().sizes() == c.other().sizes() && !c.other().is_complex() &&
                write(c, [&](Tensor& t) {
                  const Tensor by = operand(c);
                  torch::add_out(t, by, by);
                });
       }},

      {"add", [](const Context& c) { return give(c, c.self() + c.other()); }},
      {"neg", [](const Context& c) { return give(c, -c.self()); }},
      {"clone", [](const Context& c) { return give(c, c.self().clone()); }},
      {"contiguous", [](const Context& c) { return give(c, c.self().contiguous()); }},
      {"cat", [](const Context& c) { return give(c, torch::cat({c.self(), c.other()}, c.dim())); }},
  };
  return all;
}

}  // namespace kiln::capture
