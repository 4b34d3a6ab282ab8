// Generated code repeats the ABI of the container (kiln/container_runtime/model.h) instead of
// including it: the two must be one.

#include "program/model_text.hpp"

#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

// The members of each struct, as both spell them.
constexpr const char* kComparison = R"(
#define SAME(type, member)                                                       \
  static_assert(__builtin_offsetof(::type, member) ==                            \
                __builtin_offsetof(generated::type, member), #type "::" #member); \
  static_assert(sizeof(::type::member) == sizeof(generated::type::member), #type "::" #member)
#define SAME_SIZE(type) static_assert(sizeof(::type) == sizeof(generated::type), #type)
SAME_SIZE(KilnTensor);
SAME(KilnTensor, name); SAME(KilnTensor, dtype); SAME(KilnTensor, device_type);
SAME(KilnTensor, rank); SAME(KilnTensor, sizes); SAME(KilnTensor, strides);
SAME(KilnTensor, mutated);
SAME_SIZE(KilnConstant);
SAME(KilnConstant, name); SAME(KilnConstant, fqn); SAME(KilnConstant, dtype);
SAME(KilnConstant, device_type); SAME(KilnConstant, rank); SAME(KilnConstant, sizes);
SAME(KilnConstant, strides); SAME(KilnConstant, bytes); SAME(KilnConstant, blob_offset);
SAME(KilnConstant, kind); SAME(KilnConstant, mutated);
SAME_SIZE(KilnCall);
SAME(KilnCall, inputs); SAME(KilnCall, outputs); SAME(KilnCall, constants);
SAME(KilnCall, constant_data); SAME(KilnCall, stream); SAME(KilnCall, proxy_executor);
SAME(KilnCall, error);
SAME_SIZE(KilnModel);
SAME(KilnModel, version); SAME(KilnModel, device_type); SAME(KilnModel, num_inputs);
SAME(KilnModel, num_outputs); SAME(KilnModel, num_constants); SAME(KilnModel, check_inputs);
SAME(KilnModel, mutates_constants); SAME(KilnModel, inputs); SAME(KilnModel, outputs);
SAME(KilnModel, constants); SAME(KilnModel, in_spec); SAME(KilnModel, out_spec);
SAME(KilnModel, cpu_features); SAME(KilnModel, weights); SAME(KilnModel, weights_bytes);
SAME(KilnModel, create); SAME(KilnModel, destroy); SAME(KilnModel, run); SAME(KilnModel, fold);
SAME(KilnModel, pending_error);
SAME_SIZE(KilnLifetime);
SAME(KilnLifetime, first); SAME(KilnLifetime, last);
)";

// Whether a compiler finds the two declarations alike.
bool is_same(const std::string& generated) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "abi.cpp";
  write_file_atomically(path,
                        "#include \"kiln/container_runtime/model.h\"\nnamespace generated {" +
                            generated + "}\nstatic_assert(KILN_MODEL_VERSION == " +
                            std::to_string(kModelVersion) + ");\n" + kComparison);
  const ProcessResult compiled = run_process(
      {"g++", "-std=c++17", "-fsyntax-only", "-I", KILN_CONTAINER_INCLUDE, path.string()});
  UNSCOPED_INFO(compiled.error);
  return compiled.ok();
}

TEST_CASE("generated code and the container read one table", "[codegen][model]") {
  const std::string preamble = kModelPreamble;
  std::string swapped = preamble;
  const std::string members = "U64 bytes, blob_offset;";
  REQUIRE(swapped.find(members) != std::string::npos);
  swapped.replace(swapped.find(members), members.size(), "U64 blob_offset, bytes;");

  CHECK(is_same(preamble));
  CHECK_FALSE(is_same(swapped));
}

}  // namespace
}  // namespace kiln::codegen
