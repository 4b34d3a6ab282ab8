// From what a program did to what it computed: no node of the result writes to memory.
//
// A recorded value names a place: a storage, seen through a geometry. Reading one that was written
// since gives the new elements. The pass keeps one current value for each memory that is written
// and, for each place, the view that leads to it: a write through a view is carried up to the base
// by the view's inverse (or a scatter), a later read of another view is replayed from the base.
// What sees no mutation comes out as it was.

#pragma once

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The functional graph that computes what `graph` does.
///
/// In-place operators become their functional overloads. Each input i that is written gets a
/// leading output
/// `{value, kMutation, i}`, in the order of inputs, with the input's sizes as they were when the
/// graph began; inputs with the same storage id share memory, and all that overlap the written one
/// get such an output. In-place views (`t_`, `squeeze_`, …) and `set_` change no elements: they
/// become views, and an input whose geometry alone they change has no output. New nodes have the
/// provenance of the mutation that caused them.
///
/// Throws `Error` with `kUnsupported` naming the operator where no functional form is known:
/// operators that mutate without being called so, `resize_` beyond the memory there is, writes
/// through views in which elements repeat.
[[nodiscard]] Graph functionalize(Graph graph);

}  // namespace kiln::ir
