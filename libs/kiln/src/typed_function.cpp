#include "kiln/typed_function.hpp"

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/compile.hpp"

namespace kiln::detail {

using autograd_dispatch::Flat;
using autograd_dispatch::FlatFunction;
using autograd_dispatch::Specialization;
using autograd_dispatch::Structure;

namespace {

// With an identity, the values that a version was compiled for are part of it. Where only a trace
// knows the structure of the result, there is none.
std::string identity_of(const std::string& identity, const Specialization& specialization) {
  if (identity.empty() || !specialization.result_is_static) {
    return {};
  }
  return identity + "\n" + specialization.types + "\n" + specialization.arguments.text;
}

std::string reason(const Structure& now, const Structure& before) {
  return "arguments that are no tensors differ: '" + now.text + "' now, '" + before.text +
         "' before";
}

}  // namespace

void check_function(bool there) {
  if (!there) {
    throw Error(ErrorCode::kInvalidArgument, "there is no function to compile: it is null");
  }
}

autograd_dispatch::FunctionCompiler function_compiler(std::shared_ptr<torch::nn::Module> module,
                                                      CompileOptions options) {
  if (options.dynamic) {
    throw Error(ErrorCode::kUnsupported,
                "symbolic sizes (CompileOptions::dynamic) are not supported yet");
  }
  return [module = std::move(module), options = std::move(options), made = 0, before = Structure()](
             TensorFunction dense, const Specialization& specialization) mutable -> TensorFunction {
    if (made >= options.max_versions) {
      if (options.fallback_to_eager) {
        return {};
      }
      throw Error(ErrorCode::kUnsupported,
                  "the function was compiled for " + std::to_string(made) +
                      " sets of arguments that are no tensors and sees another, '" +
                      specialization.arguments.text +
                      "'; pass what changes from call to call as a tensor, raise max_versions, or "
                      "set fallback_to_eager");
    }
    if (made++ > 0) {
      KILN_LOG(kInfo, "kiln", "compiled again: " << reason(specialization.arguments, before));
    }
    before = specialization.arguments;
    CompileOptions own = options;
    own.identity = identity_of(options.identity, specialization);
    return compile(module, std::move(dense), std::move(own));
  };
}

void prepare(const FlatFunction& function,
             const FlatFunction::Program& program,
             const Flat& example) {
  const auto version = function.version_for(program, example.structure);
  if (const auto* compiled = version->compiled.target<Function>()) {
    compiled->prepare(example.tensors);
  }  // Else it is past `max_versions`, and runs as it is.
}

CompileReport report_of(const FlatFunction& function) {
  CompileReport all;
  const Structure* before = nullptr;
  for (const auto& version : function.versions()) {
    CompileReport one = version->compiled.target<Function>()->report();
    const Structure& arguments = version->specialization.arguments;
    if (before != nullptr && !one.details.empty()) {
      one.details.front().reason = reason(arguments, *before);
    }
    before = &arguments;
    for (VersionReport& detail : one.details) {
      detail.guards.push_back("arguments: " + arguments.text);
    }
    all.versions += one.versions;
    all.trace_ms += one.trace_ms;
    all.partition_ms += one.partition_ms;
    all.lookup_ms += one.lookup_ms;
    all.graphs.insert(all.graphs.end(), one.graphs.begin(), one.graphs.end());
    all.details.insert(all.details.end(), one.details.begin(), one.details.end());
  }
  return all;
}

}  // namespace kiln::detail
