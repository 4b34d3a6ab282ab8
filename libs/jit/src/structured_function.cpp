#include "kiln/jit/structured_function.hpp"

#include <utility>

#include "kiln/autograd_dispatch/flat_function.hpp"
#include "kiln/base/error.hpp"
#include "kiln/jit/typed_function.hpp"
#include "kiln/jit/value_tree.hpp"

namespace kiln {

using nlohmann::json;

namespace {

autograd_dispatch::Flat flatten_value(const c10::IValue& value, bool integers_vary) {
  FlatValue flat = flatten(value);
  std::vector<std::int64_t> integers;
  if (integers_vary) {
    integers = take_integers(flat.structure, autograd_dispatch::integer_may_vary);
  }
  return {std::move(flat.tensors), {flat.structure.dump()}, std::move(integers)};
}

autograd_dispatch::Flat flatten_values(const Values& values, bool integers_vary) {
  return flatten_value(c10::ivalue::Tuple::create(values), integers_vary);
}

c10::IValue unflatten_value(const autograd_dispatch::Flat& flat) {
  json structure = json::parse(flat.structure.text);
  put_integers(structure, flat.integers);
  return unflatten(structure, flat.tensors);
}

autograd_dispatch::Flat run_value_function(void* function,
                                           const autograd_dispatch::Flat& arguments,
                                           bool integers_vary) {
  const c10::IValue all = unflatten_value(arguments);
  return flatten_value((*static_cast<ValueFunction*>(function))(all.toTupleRef().elements().vec()),
                       integers_vary);
}

constexpr autograd_dispatch::FlatFunction::Program kValueProgram = {
    .run = &run_value_function, .types = "c10::IValue", .result = nullptr};

}  // namespace

const autograd_dispatch::FlatFunction& StructuredFunction::flat() const {
  if (!flat_) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function is empty: kiln::compile makes one that can be called");
  }
  return *flat_;
}

c10::IValue StructuredFunction::operator()(const Values& arguments) const {
  return unflatten_value(flat()(kValueProgram, flatten_values(arguments, flat().integers_vary())));
}

void StructuredFunction::prepare(const Values& example) const {
  detail::prepare(flat(), kValueProgram, flatten_values(example, flat().integers_vary()));
}

CompileReport StructuredFunction::report() const {
  return detail::report_of(flat());
}

StructuredFunction detail::compile_structured(std::shared_ptr<torch::nn::Module> module,
                                              ValueFunction fn,
                                              CompileOptions options) {
  check_function(fn != nullptr);
  StructuredFunction structured;
  structured.flat_ = std::make_shared<const autograd_dispatch::FlatFunction>(
      std::make_shared<ValueFunction>(std::move(fn)),
      function_compiler(std::move(module), options),
      integers_vary(options));
  return structured;
}

}  // namespace kiln
