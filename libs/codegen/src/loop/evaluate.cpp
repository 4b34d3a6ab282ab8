#include "loop/evaluate.hpp"

#include <utility>

namespace kiln::codegen {
namespace {

// Calls `visit` for each point of a box, the last index fastest.
template <class Visit>
void for_each_point(const std::vector<std::int64_t>& sizes,
                    std::vector<std::int64_t>& point,
                    std::size_t dim,
                    const Visit& visit) {
  if (dim == sizes.size()) {
    visit();
    return;
  }
  for (std::int64_t i = 0; i < sizes[dim]; ++i) {
    point.push_back(i);
    for_each_point(sizes, point, dim + 1, visit);
    point.pop_back();
  }
}

}  // namespace

const Array& Evaluator::of(TensorId id) {
  if (const auto found = known_.find(id); found != known_.end()) {
    return found->second;
  }
  const Tensor& tensor = program_[id];
  Array array = tensor.kind == Tensor::Kind::kMemory ? memory_(id) : compute(tensor);
  return known_.emplace(id, std::move(array)).first->second;
}

Array Evaluator::compute(const Tensor& tensor) {
  Array array{tensor.dtype, constant_sizes(tensor.sizes), {}};
  const std::vector<std::int64_t> reduced = constant_sizes(tensor.reduced);
  Point point;
  for_each_point(array.sizes, point, 0, [&] {
    if (tensor.kind == Tensor::Kind::kScan) {
      array.elements.push_back(fit(compute_type(tensor.dtype), running_total(tensor, point)));
      return;
    }
    if (tensor.kind != Tensor::Kind::kReduction) {
      array.elements.push_back(scalar(tensor.body, point));
      return;
    }
    Element total = neutral(tensor.reduction);
    for_each_point(reduced, point, 0, [&] {
      total = combine(tensor.reduction, total, scalar(tensor.body, point));
    });
    array.elements.push_back(fit(compute_type(tensor.dtype), total));
  });
  if (tensor.updates) {
    update(*tensor.updates, array);
  }
  return array;
}

Element Evaluator::running_total(const Tensor& tensor, const Point& last) {
  Element total = neutral(tensor.reduction);
  Point point = last;
  for (std::int64_t& i = point[tensor.scanned] = 0; i <= last[tensor.scanned]; ++i) {
    total = combine(tensor.reduction, total, scalar(tensor.body, point));
  }
  return total;
}

void Evaluator::update(const Updates& updates, Array& array) {
  Point point;
  for_each_point(constant_sizes(updates.sizes), point, 0, [&] {
    std::int64_t position = 0;
    for (std::size_t i = 0; i < updates.place.size(); ++i) {
      position = position * array.sizes[i] + index(updates.place[i], point);
    }
    Element& element = array.elements.at(static_cast<std::size_t>(position));
    const Element value = scalar(updates.value, point);
    element = fit(compute_type(array.dtype),
                  updates.reduction ? combine(*updates.reduction, element, value) : value);
  });
}

Element Evaluator::leaf(const Scalar& s, const Point& point) {
  const Array& source = of(s.tensor);
  std::int64_t position = 0;
  for (std::size_t i = 0; i < s.indices.size(); ++i) {
    position = position * source.sizes[i] + index(s.indices[i], point);
  }
  return source.elements.at(static_cast<std::size_t>(position));
}

}  // namespace kiln::codegen
