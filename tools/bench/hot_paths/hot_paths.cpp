// The paths that every user takes and that no machine changes, for an instruction counter to
// follow: each is a function of its own that repeats one thing.
//
//   kiln-hot-paths prepare MODEL.so    compiles the model
//   kiln-hot-paths run MODEL.so N      takes each path N times, in a child of its own: "hot_call
//   PID"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/kiln.hpp"
#include "version.hpp"

#define KILN_HOT_PATH extern "C" __attribute__((noinline, visibility("default")))

namespace {

using kiln::Tensors;

Tensors four_inputs() {
  return {at::ones({4}), at::ones({4}), at::ones({4}), at::ones({4})};
}

Tensors sum(const Tensors& in) {
  return {in[0].add(in[1]).add(in[2]).add(in[3])};
}

// What the counter cannot follow is not used: it knows no AVX-512.
const char* plain_isa() {
#if defined(__x86_64__)
  return "x86-64-v2";
#else
  return "neon";
#endif
}

kiln::Version version_for(const Tensors& inputs) {
  kiln::Version version(inputs, kiln::ThreadGuard::now(), nullptr);
  kiln::autograd_dispatch::JointTrace trace = kiln::autograd_dispatch::trace_joint(sum, inputs);
  version.set_captured(trace.captured);
  version.function = kiln::autograd_dispatch::dispatch(std::move(trace), {});
  return version;
}

Tensors doubled(const Tensors& in) {
  return {in[0].mul(2), in[1].mul(2), in[2].mul(2), in[3].mul(2)};
}

// Of inputs whose sizes are symbols, with a relation between two of them.
kiln::Version symbolic_version_for(const Tensors& inputs) {
  const kiln::ir::Graph graph = kiln::ir::parse(R"(graph g {
  symbol %n in [0, 100]
  symbol %m in [0, 100]
  input %a: f32[n, m, 5] user
  input %b: f32[m, n] user
  input %c: f32[n, 4, m] user
  input %d: f32[2*n, 3] user
  output %a user
})");
  kiln::Version version(inputs, kiln::ThreadGuard::now(), nullptr);
  kiln::autograd_dispatch::JointTrace trace = kiln::autograd_dispatch::trace_joint(doubled, inputs);
  version.sizes.emplace(graph, trace.plan.inputs, graph.symbols());
  version.function = kiln::autograd_dispatch::dispatch(std::move(trace), {});
  return version;
}

kiln::autograd_cache::Key example_key() {
  return kiln::autograd_cache::KeyBuilder().add("graph", "g").add("target", "t").build();
}

// A counter may not see where a function ends, but it sees where a process does.
void in_child(const char* name, const std::function<void()>& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    path();
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    std::cerr << name << " failed\n";
    std::exit(1);
  }
  std::cout << name << " " << child << "\n";
}

}  // namespace

KILN_HOT_PATH void hot_call(kiln::Model& model, const Tensors& inputs, int times) {
  for (int i = 0; i < times; ++i) {
    (void)model.run(inputs);
  }
}

KILN_HOT_PATH void hot_guards(const kiln::Version& version, const Tensors& inputs, int times) {
  for (int i = 0; i < times; ++i) {
    if (!version.holds(inputs, kiln::ThreadGuard::now())) {
      std::abort();
    }
  }
}

KILN_HOT_PATH void hot_symbolic_guards(const kiln::Version& version,
                                       const Tensors& inputs,
                                       int times) {
  for (int i = 0; i < times; ++i) {
    if (!version.holds(inputs, kiln::ThreadGuard::now())) {
      std::abort();
    }
  }
}

KILN_HOT_PATH void hot_hit(kiln::autograd_cache::Cache& cache,
                           const kiln::autograd_cache::Key& key,
                           int times) {
  for (int i = 0; i < times; ++i) {
    if (!cache.find(key)) {
      std::abort();
    }
  }
}

int main(int count, char** arguments) {
  const std::string mode = count > 2 ? arguments[1] : "";
  if (mode == "prepare") {
    kiln::aot_compile(kiln::export_program(sum, four_inputs()),
                      arguments[2],
                      {.isa = plain_isa(), .use_cache = false});
    return 0;
  }
  if (mode != "run" || count < 4) {
    std::cerr << "usage: kiln-hot-paths prepare MODEL.so | run MODEL.so TIMES\n";
    return 2;
  }
  const at::NoGradGuard no_grad;
  const int times = std::atoi(arguments[3]);
  const Tensors inputs = four_inputs();

  kiln::Model model = kiln::load(arguments[2], {.instances = 1});
  for (int i = 0; i < 3; ++i) {
    (void)model.run(inputs);
  }

  const kiln::Version version = version_for(inputs);
  const Tensors like_example = {
      at::ones({6, 7, 5}), at::ones({7, 6}), at::ones({6, 4, 7}), at::ones({12, 3})};
  const Tensors in_other_sizes = {
      at::ones({9, 8, 5}), at::ones({8, 9}), at::ones({9, 4, 8}), at::ones({18, 3})};
  const kiln::Version symbolic = symbolic_version_for(like_example);

  const kiln::TemporaryDirectory directory("kiln-hot-paths");
  kiln::autograd_cache::CacheOptions options;
  options.directory = directory.path() / "cache";
  options.mode = kiln::autograd_cache::Mode::kWrite;
  options.remote = {};
  kiln::autograd_cache::Cache cache(options);
  const kiln::autograd_cache::Key key = example_key();
  cache.put(key, {.guards = "", .blobs = {{"metadata", "m"}}, .files = {}});
  (void)cache.find(key);

  in_child("hot_call", [&] { hot_call(model, inputs, times); });
  in_child("hot_guards", [&] { hot_guards(version, inputs, times); });
  in_child("hot_symbolic_guards", [&] { hot_symbolic_guards(symbolic, in_other_sizes, times); });
  in_child("hot_hit", [&] { hot_hit(cache, key, times); });
  return 0;
}
