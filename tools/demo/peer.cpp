#include "peer.hpp"

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kiln/base/subprocess.hpp"

namespace kiln::demo {
namespace {

constexpr const char* kScript = R"(
import json, sys, time
import torch
program, ours, package = sys.argv[1:4]
exported = torch.export.load(program)
inputs = exported.example_inputs[0]
start = time.perf_counter()
torch._inductor.aoti_compile_and_package(exported, package_path=package)
seconds = time.perf_counter() - start
with torch.no_grad():
    expected = exported.module()(*inputs)
    found = torch._inductor.aoti_load_package(ours)(*inputs)
    jit = torch.compile(exported.module())
    start = time.perf_counter()
    jit(*inputs)
    jit_seconds = time.perf_counter() - start
    calls = []
    for _ in range(50):
        start = time.perf_counter()
        jit(*inputs)
        calls.append(time.perf_counter() - start)
pairs = zip(expected if isinstance(expected, (list, tuple)) else [expected],
            found if isinstance(found, (list, tuple)) else [found])
print(json.dumps({"compile_ms": seconds * 1000, "jit_compile_ms": jit_seconds * 1000, "jit_call_ms": min(calls) * 1000,
                  "difference": max(float((a - b).abs().max()) for a, b in pairs)}))
)";

std::filesystem::path python() {
  const char* chosen = std::getenv("KILN_PYTHON");
  return chosen != nullptr ? chosen : ".venv/bin/python";
}

}  // namespace

std::optional<Peer> run_peer(const std::filesystem::path& program,
                             const std::filesystem::path& ours,
                             const std::filesystem::path& package) {
  if (!std::filesystem::exists(python())) {
    return std::nullopt;
  }
  ProcessOptions options;
  options.timeout = std::chrono::minutes(8);
  options.environment = {{"TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1"}};
  const ProcessResult result = run_process({std::filesystem::absolute(python()).string(),
                                            "-c",
                                            kScript,
                                            program.string(),
                                            ours.string(),
                                            package.string()},
                                           options);
  const std::size_t start = result.output.rfind("\n{");
  const std::string line =
      start == std::string::npos ? result.output : result.output.substr(start + 1);
  if (!result.ok() || line.empty() || line.front() != '{') {
    std::cout << "   PyTorch's side failed:\n" << result.error << "\n";
    return std::nullopt;
  }
  const nlohmann::json answer = nlohmann::json::parse(line);
  return Peer{package,
              answer["compile_ms"],
              answer["jit_compile_ms"],
              answer["jit_call_ms"],
              answer["difference"]};
}

}  // namespace kiln::demo
