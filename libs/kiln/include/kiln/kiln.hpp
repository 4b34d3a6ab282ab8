// Kiln: torch.compile and AOTInductor for programs in C++.
//
//   auto fast = kiln::compile(net);              // trains: fast(x).sum().backward()
//   auto program = kiln::export_program(f, {x});
//   auto package = kiln::aot_compile(program, "model.pt2");
//   auto outputs = kiln::load(package).run({x});
//
// Whoever wants a part only includes the library beneath: kiln/jit, kiln/export,
// kiln/autograd_dispatch, kiln/partitioner, kiln/codegen, kiln/container_runtime,
// kiln/autograd_cache, kiln/capture, kiln/ir.

#pragma once

#include "kiln/autograd_cache/identity.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/effects.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/jit/options.hpp"
#include "kiln/model.hpp"
#include "kiln/program.hpp"
#include "kiln/structured.hpp"
#include "kiln/version.hpp"

namespace kiln {

/// Programs with custom operators are cached once these have an identity:
/// `kiln::declare_identity("mylib::scale", "1")`.
using autograd_cache::declare_identity;

/// Calls of a custom operator that does something no result shows are kept, in order, once:
/// `kiln::declare_effect("mylib::log")`.
using capture::declare_effect;

}  // namespace kiln
