#include "emit_kernel.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "kiln/base/error.hpp"
#include "scalar_text.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Starting threads costs several microseconds.
constexpr double kWorthThreads = 20'000;
// Elements that one thread takes at a time where rows are not the unit of work.
constexpr std::int64_t kBlock = 4096;

Scalar neutral_of(Reduction reduction, DType dtype) {
  Scalar constant{.op = ScalarOp::kConstant, .dtype = dtype};
  const double infinity = std::numeric_limits<double>::infinity();
  const int bits = 8 * ir::size_of(dtype);
  const std::int64_t largest = dtype == DType::kUInt8 ? 255 : static_cast<std::int64_t>(~0ULL >> (65 - bits));
  switch (reduction) {
    case Reduction::kSum: break;
    case Reduction::kProduct: constant.real = 1, constant.integer = 1; break;
    case Reduction::kMaximum:
      constant.real = -infinity, constant.integer = dtype == DType::kUInt8 ? 0 : -largest - 1;
      break;
    case Reduction::kMinimum: constant.real = infinity, constant.integer = largest; break;
    case Reduction::kAny: break;
    case Reduction::kAll: constant.integer = 1; break;
  }
  return constant;
}

class KernelEmitter {
 public:
  KernelEmitter(const LoopProgram& program, const LoopKernel& kernel, const Target& target)
      : kernel_(kernel),
        prelude_(target.vector_bytes),
        levels_(program.pool, kernel),
        context_{program, kernel, prelude_, levels_, body_, text_.sizes},
        lanes_(prelude_.lanes()) {
    temporaries_ = choose_row_temporaries(program.pool, program, kernel, levels_);
    parallel_ = estimate_nanoseconds(program, kernel, lanes_) > kWorthThreads;
  }

  KernelText run() {
    body_.open("extern \"C\" void KILN_KERNEL(void* const* buffers, const long long* sizes)");
    body_.line("(void)sizes;");
    name_operands();
    if (is_blocked()) {
      emit_blocks();
    } else {
      emit_rows();
    }
    if (kernel_.has_epilogue()) {
      emit_epilogue();
    }
    body_.close();
    for (const std::string& op : kernel_.ops) {
      text_.source += (text_.source.empty() ? "// " : ", ") + op;
    }
    text_.source += "\nnamespace KILN_KERNEL_parts {\n" + prelude_.text() + "\n" + body_.text() +
                    "}  // namespace KILN_KERNEL_parts\n";
    return std::move(text_);
  }

 private:
  std::string extent(int variable) const {
    return context_.text(kernel_.extents[static_cast<std::size_t>(variable)]);
  }

  std::string row_position(const std::string& inner) const {
    return kernel_.extents[kMiddle] == Expr(1) ? inner : "m * " + extent(kInner) + " + " + inner;
  }

  DType operand_dtype(std::uint32_t operand) const {
    return context_.program[kernel_.operands[operand].tensor].dtype;
  }

  void name_operands() {
    for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) {
      const DType dtype = operand_dtype(i);
      prelude_.use_memory(dtype);
      const std::string type = (kernel_.operands[i].written ? "" : "const ") + std::string(memory_type(dtype));
      body_.line(type + "* const " + context_.operand(i) + " = (" + type + "*)buffers[" + std::to_string(i) +
                 "];");
    }
    std::size_t next = kernel_.operands.size();
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopKernel::Reduce& reduce = kernel_.reduces[i];
      if (reduce.result == Span::kRow) {
        continue;
      }
      prelude_.use_memory(reduce.dtype);
      const std::string type(memory_type(reduce.dtype));
      body_.line(type + "* const partial" + std::to_string(i) + " = (" + type + "*)buffers[" +
                 std::to_string(next++) + "];");
      const Expr row = reduce.result == Span::kColumn ? kernel_.extents[kMiddle] * kernel_.extents[kInner] : Expr(1);
      text_.scratch.push_back({reduce.dtype, row * Expr(kernel_.chunks)});
    }
  }

  // Without reductions any piece of a row is a unit of work.
  bool is_blocked() const {
    const std::optional<std::int64_t> outer = kernel_.extents[kOuter].constant();
    const std::optional<std::int64_t> inner = kernel_.extents[kInner].constant();
    const bool uniform = std::ranges::all_of(
        kernel_.stores, [](const LoopKernel::Store& store) { return store.span == Span::kFull; });
    return parallel_ && kernel_.reduces.empty() && uniform && outer && inner && *outer < 64 &&
           *inner > kBlock && kernel_.extents[kMiddle] == Expr(1);
  }

  void emit_blocks() {
    const std::int64_t inner = *kernel_.extents[kInner].constant();
    const std::int64_t blocks = (inner + kBlock - 1) / kBlock;
    const std::string count = std::to_string(blocks);
    body_.pragma("#pragma omp parallel for");
    body_.open("for (Index task = 0; task < " + std::to_string(blocks * *kernel_.extents[kOuter].constant()) +
               "; ++task)");
    body_.line("const Index o = task / " + count + ";");
    body_.line("const Index begin = task % " + count + " * " + std::to_string(kBlock) + ";");
    const std::string end = std::to_string(inner);
    body_.line("const Index end = begin + " + std::to_string(kBlock) + " < " + end + " ? begin + " +
               std::to_string(kBlock) + " : " + end + ";");
    body_.line("(void)o;");
    Block row(context_, nullptr, 1);
    emit_phase(0, row, "begin", "end", inner % kBlock);
    body_.close();
  }

  void emit_rows() {
    if (kernel_.has_epilogue()) {
      const std::string chunks = std::to_string(kernel_.chunks);
      if (parallel_ && kernel_.chunks > 1) {
        body_.pragma("#pragma omp parallel for");
      }
      body_.open("for (Index chunk = 0; chunk < " + chunks + "; ++chunk)");
      Block chunk(context_, nullptr, 0);
      open_chunk_accumulators();
      body_.open("for (Index o = " + extent(kOuter) + " * chunk / " + chunks + "; o < " + extent(kOuter) +
                 " * (chunk + 1) / " + chunks + "; ++o)");
      emit_row(chunk);
      body_.close();
      close_chunk_accumulators();
      body_.close();
      return;
    }
    const bool single = kernel_.extents[kOuter] == Expr(1);
    if (parallel_ && !single) {
      body_.pragma("#pragma omp parallel for");
    }
    body_.open(single ? "" : "for (Index o = 0; o < " + extent(kOuter) + "; ++o)");
    if (single) {
      body_.line("const Index o = 0;");
      body_.line("(void)o;");
    }
    Block outermost(context_, nullptr, 0);
    emit_row(outermost);
    body_.close();
  }

  int phase_count() const {
    int phases = 1;
    for (const LoopKernel::Reduce& reduce : kernel_.reduces) {
      phases = std::max(phases, reduce.phase + 1);
    }
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kFull) {
        phases = std::max(phases, store.phase + 1);
      }
    }
    return phases;
  }

  void emit_row(Block& outer) {
    Block row(context_, &outer, 1);
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      if (temporaries_[i].store < 0) {
        const DType dtype = context_.scalar(temporaries_[i].value).dtype;
        prelude_.use_memory(dtype);
        body_.line(std::string(memory_type(dtype)) + " row" + std::to_string(i) + "[" +
                   context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]) +
                   "] __attribute__((aligned(64)));");
      }
    }
    const int phases = phase_count();
    const std::optional<std::int64_t> inner = kernel_.extents[kInner].constant();
    for (int phase = 0; phase < phases; ++phase) {
      emit_phase(phase, row, "0", extent(kInner), inner);
      finish_row_reductions(phase, row);
      emit_row_stores(phase, row);
    }
  }

  // What the inner loops of a phase compute.
  std::vector<ScalarId> roots(int phase) const {
    std::vector<ScalarId> result;
    for (const LoopKernel::Reduce& reduce : kernel_.reduces) {
      if (reduce.phase == phase) {
        result.push_back(reduce.body);
      }
    }
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kFull && store.phase == phase) {
        result.push_back(store.value);
      }
    }
    return result;
  }

  // Computes in `block` everything under `root` that does not change inside it.
  void hoist(ScalarId root, int phase, int level, Block& block, std::set<ScalarId>& seen) {
    if (!seen.insert(root).second || is_kept(root, phase)) {
      return;
    }
    const Scalar& scalar = context_.scalar(root);
    if (levels_.of(root) <= level) {
      if (scalar.op != ScalarOp::kConstant) {
        block.value(root);
      }
      return;
    }
    const auto descend = [&](ScalarId id) { hoist(id, phase, level, block, seen); };
    std::ranges::for_each(scalar.operands, descend);
    for (const Index& index : scalar.indices) {
      for_each_computed(index, descend);
    }
  }

  // Whether a phase finds `id` ready-made in a row temporary.
  bool is_kept(ScalarId id, int phase) const {
    return std::ranges::any_of(temporaries_, [&](const RowTemporary& temporary) {
      return temporary.value == id && temporary.phase < phase;
    });
  }

  static std::string accumulator(std::size_t reduce, int copy) {
    return "a" + std::to_string(reduce) + "_" + std::to_string(copy);
  }

  // Independent accumulators hide the latency of the additions.
  int unroll(int phase) {
    bool reduces = false;
    for (const LoopKernel::Reduce& reduce : kernel_.reduces) {
      reduces = reduces || (reduce.phase == phase && reduce.result != Span::kColumn);
    }
    return reduces ? 4 : 1;
  }

  void declare_accumulators(std::size_t number, int copies) {
    const LoopKernel::Reduce& reduce = kernel_.reduces[number];
    prelude_.use_vector(reduce.dtype);
    const std::string neutral = "splat(" + literal(neutral_of(reduce.reduction, reduce.dtype)) + ")";
    std::string line;
    for (int copy = 0; copy < copies; ++copy) {
      line += (copy == 0 ? std::string(vector_type(reduce.dtype)) + " " : ", ") + accumulator(number, copy) +
              " = " + neutral;
    }
    body_.line(line + ";");
  }

  std::string combine(const LoopKernel::Reduce& reduce, const std::string& a, const std::string& b) {
    switch (reduce.reduction) {
      case Reduction::kSum: return a + " + " + b;
      case Reduction::kProduct: return a + " * " + b;
      case Reduction::kAny: return a + " | " + b;
      case Reduction::kAll: return a + " & " + b;
      case Reduction::kMaximum: prelude_.use_function("maximum", reduce.dtype); return "maximum(" + a + ", " + b + ")";
      case Reduction::kMinimum: prelude_.use_function("minimum", reduce.dtype); return "minimum(" + a + ", " + b + ")";
    }
    return {};
  }

  std::string reduce_lanes(const LoopKernel::Reduce& reduce, const std::string& vector) {
    const auto use = [&](const char* name) {
      prelude_.use_function(name, reduce.dtype);
      return std::string(name) + "(" + vector + ")";
    };
    switch (reduce.reduction) {
      case Reduction::kSum: return use("add_lanes");
      case Reduction::kProduct: return use("multiply_lanes");
      case Reduction::kMaximum: return use("maximum_lanes");
      case Reduction::kMinimum: return use("minimum_lanes");
      case Reduction::kAny: prelude_.use_vector(DType::kBool); return "any_lane(" + vector + ")";
      case Reduction::kAll: prelude_.use_vector(DType::kBool); return "every_lane(" + vector + ")";
    }
    return {};
  }

  std::string all_accumulators(std::size_t number, int copies) {
    std::string total = accumulator(number, 0);
    for (int copy = 1; copy < copies; ++copy) {
      total = combine(kernel_.reduces[number], total, accumulator(number, copy));
    }
    return total;
  }

  // `constant_inner` is the length of the loop if it is known: parts that never run are left out.
  void emit_phase(int phase,
                  Block& row,
                  const std::string& begin,
                  const std::string& end,
                  std::optional<std::int64_t> length) {
    const std::vector<ScalarId> values = roots(phase);
    if (values.empty()) {
      return;
    }
    std::set<ScalarId> seen;
    for (const ScalarId value : values) {
      hoist(value, phase, 1, row, seen);
    }
    const int copies = unroll(phase);
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      if (kernel_.reduces[i].phase == phase && kernel_.reduces[i].result == Span::kRow) {
        declare_accumulators(i, copies);
      }
    }
    const bool nested = !(kernel_.extents[kMiddle] == Expr(1));
    if (nested) {
      body_.open("for (Index m = 0; m < " + extent(kMiddle) + "; ++m)");
    }
    Block middle(context_, &row, 2);
    std::set<ScalarId> seen_in_middle;
    for (const ScalarId value : values) {
      hoist(value, phase, 2, middle, seen_in_middle);
    }
    emit_inner_loops(middle, begin, end, length, copies,
                     [&](Block& block, int copy) { emit_elements(phase, block, copy); });
    if (nested) {
      body_.close();
    }
  }

  template <class Emit>
  void emit_inner_loops(Block& parent,
                        const std::string& begin,
                        const std::string& end,
                        std::optional<std::int64_t> length,
                        int copies,
                        const Emit& emit) {
    // Blocks of a row end anywhere; `length` is then only the remainder that counts.
    const bool whole = begin == "0";
    const int step = lanes_ * copies;
    const auto needed = [&](std::int64_t width) { return !length || !whole || *length >= width; };
    body_.open("");
    body_.line("Index j = " + begin + ";");
    if (needed(step)) {
      body_.open("for (; j + " + std::to_string(step) + " <= " + end + "; j += " + std::to_string(step) + ")");
      for (int copy = 0; copy < copies; ++copy) {
        if (copies > 1) {
          body_.open("");
        }
        Block block(context_, &parent, 3, copy == 0 ? "j" : "j + " + std::to_string(copy * lanes_));
        emit(block, copy);
        if (copies > 1) {
          body_.close();
        }
      }
      body_.close();
    }
    if (copies > 1 && (!length || !whole || *length % step >= lanes_)) {
      body_.open("for (; j + " + std::to_string(lanes_) + " <= " + end + "; j += " + std::to_string(lanes_) + ")");
      Block block(context_, &parent, 3);
      emit(block, 0);
      body_.close();
    }
    if (!length || *length % lanes_ != 0) {
      body_.open("if (j < " + end + ")");
      body_.line("const int n = (int)(" + end + " - j);");
      Block block(context_, &parent, 3, "j", "n");
      emit(block, 0);
      body_.close();
    }
    body_.close();
  }

  void emit_elements(int phase, Block& block, int copy) {
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      const RowTemporary& temporary = temporaries_[i];
      if (temporary.phase < phase && is_used(temporary.value, phase)) {
        read_temporary(i, block);
      }
    }
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      if (kernel_.reduces[i].phase == phase) {
        accumulate(i, block, copy);
      }
    }
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      const RowTemporary& temporary = temporaries_[i];
      if (temporary.phase == phase && temporary.store < 0) {
        const std::string value = block.vector(temporary.value);
        body_.line("store(row" + std::to_string(i) + " + " + row_position(block.inner()) + ", " + value +
                   (block.count().empty() ? ");" : ", " + block.count() + ");"));
      }
    }
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kFull && store.phase == phase) {
        const std::string value = block.vector(store.value);
        block.store_vector(context_.operand(store.operand), store.address, value);
      }
    }
  }

  bool is_used(ScalarId target, int phase) const {
    std::set<ScalarId> seen;
    const auto reaches = [&](auto&& self, ScalarId id) -> bool {
      if (id == target) {
        return true;
      }
      if (!seen.insert(id).second || is_kept(id, phase)) {
        return false;
      }
      const Scalar& scalar = context_.scalar(id);
      bool found = std::ranges::any_of(scalar.operands, [&](ScalarId operand) { return self(self, operand); });
      for (const Index& index : scalar.indices) {
        for_each_computed(index, [&](ScalarId operand) { found = found || self(self, operand); });
      }
      return found;
    };
    return std::ranges::any_of(roots(phase), [&](ScalarId root) { return reaches(reaches, root); });
  }

  void read_temporary(std::size_t number, Block& block) {
    const RowTemporary& temporary = temporaries_[number];
    const DType dtype = context_.scalar(temporary.value).dtype;
    const std::string name = "t" + std::to_string(number);
    std::string text;
    if (temporary.store >= 0) {
      const LoopKernel::Store& store = kernel_.stores[static_cast<std::size_t>(temporary.store)];
      text = block.load_vector(context_.operand(store.operand), store.address);
    } else {
      text = "load(row" + std::to_string(number) + " + " + row_position(block.inner()) +
             (block.count().empty() ? ")" : ", " + block.count() + ")");
    }
    body_.line("const " + std::string(vector_type(dtype)) + " " + name + " = " + text + ";");
    block.set(temporary.value, name);
  }

  void accumulate(std::size_t number, Block& block, int copy) {
    const LoopKernel::Reduce& reduce = kernel_.reduces[number];
    std::string value = block.vector(reduce.body);
    if (reduce.result == Span::kColumn) {
      const std::string place = "sum" + std::to_string(number) + " + " + row_position(block.inner());
      const std::string count = block.count().empty() ? "" : ", " + block.count();
      body_.line("store(" + place + ", " + combine(reduce, "load(" + place + count + ")", value) + count + ");");
      return;
    }
    if (!block.count().empty()) {
      // Lanes beyond the end must not change the result.
      const Scalar neutral = neutral_of(reduce.reduction, reduce.dtype);
      std::string lanes = "lanes_below(" + block.count() + ")";
      const int bytes = reduce.dtype == DType::kBool ? 4 : ir::size_of(reduce.dtype);
      if (bytes != 4) {
        const DType wide = bytes == 8 ? DType::kInt64 : bytes == 2 ? DType::kInt16 : DType::kInt8;
        prelude_.use_vector(wide);
        lanes = "__builtin_convertvector(" + lanes + ", " + std::string(vector_type(wide)) + ")";
      }
      value = "(" + lanes + " ? " + value + " : splat(" + literal(neutral) + "))";
    }
    const std::string name = accumulator(number, copy);
    body_.line(name + " = " + combine(reduce, name, value) + ";");
  }

  ScalarId reduced(std::size_t number) const {
    // The pool holds it if anybody uses it.
    for (std::size_t i = 0; i < context_.program.pool.size(); ++i) {
      const Scalar& scalar = context_.program.pool[ScalarId(i)];
      if (scalar.op == ScalarOp::kReduced && scalar.integer == static_cast<std::int64_t>(number) &&
          scalar.dtype == kernel_.reduces[number].dtype) {
        return ScalarId(i);
      }
    }
    return {};
  }

  void finish_row_reductions(int phase, Block& row) {
    const int copies = unroll(phase);
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopKernel::Reduce& reduce = kernel_.reduces[i];
      if (reduce.phase != phase || reduce.result != Span::kRow) {
        continue;
      }
      const std::string name = "r" + std::to_string(i);
      body_.line("const " + std::string(scalar_type(reduce.dtype)) + " " + name + " = " +
                 reduce_lanes(reduce, all_accumulators(i, copies)) + ";");
      if (const ScalarId id = reduced(i); id.valid()) {
        row.set(id, name);
      }
    }
  }

  // Values of whole rows: stored as soon as what they need is there.
  void emit_row_stores(int phase, Block& row) {
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span != Span::kRow || std::max(store.phase, 1) != phase + 1) {
        continue;
      }
      const std::string value = row.value(store.value);
      body_.line("store_one(" + context_.operand(store.operand) + " + (" + row.index(store.address) + "), " +
                 value + ");");
    }
  }

  void open_chunk_accumulators() {
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopKernel::Reduce& reduce = kernel_.reduces[i];
      if (reduce.result == Span::kSingle) {
        declare_accumulators(i, 4);
      } else if (reduce.result == Span::kColumn) {
        const std::string number = std::to_string(i);
        const std::string row = context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]);
        body_.line(std::string(memory_type(reduce.dtype)) + "* const sum" + number + " = partial" + number +
                   " + chunk * " + row + ";");
        body_.line("for (Index j = 0; j < " + row + "; ++j) store_one(sum" + number + " + j, " +
                   literal(neutral_of(reduce.reduction, reduce.dtype)) + ");");
      }
    }
  }

  void close_chunk_accumulators() {
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopKernel::Reduce& reduce = kernel_.reduces[i];
      if (reduce.result == Span::kSingle) {
        body_.line("store_one(partial" + std::to_string(i) + " + chunk, " +
                   reduce_lanes(reduce, all_accumulators(i, 4)) + ");");
      }
    }
  }

  // Adds up the chunks and stores what is made of the sums.
  void emit_epilogue() {
    body_.open("");
    Block outermost(context_, nullptr, 0);
    const std::string chunks = std::to_string(kernel_.chunks);
    bool columns = false;
    for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
      const LoopKernel::Reduce& reduce = kernel_.reduces[i];
      columns = columns || reduce.result == Span::kColumn;
      if (reduce.result != Span::kSingle) {
        continue;
      }
      const std::string partial = "partial" + std::to_string(i);
      const std::string name = "r" + std::to_string(i);
      body_.line(std::string(scalar_type(reduce.dtype)) + " " + name + " = load_one(" + partial + ");");
      body_.line("for (Index chunk = 1; chunk < " + chunks + "; ++chunk) " + name + " = " +
                 combine(reduce, name, "load_one(" + partial + " + chunk)") + ";");
      if (const ScalarId id = reduced(i); id.valid()) {
        outermost.set(id, name);
      }
    }
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kSingle) {
        const std::string value = outermost.value(store.value);
        body_.line("store_one(" + context_.operand(store.operand) + " + (" + outermost.index(store.address) +
                   "), " + value + ");");
      }
    }
    if (columns) {
      emit_column_epilogue(outermost, chunks);
    }
    body_.close();
  }

  void emit_column_epilogue(Block& outermost, const std::string& chunks) {
    std::set<ScalarId> seen;
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kColumn) {
        hoist(store.value, 0, 0, outermost, seen);
      }
    }
    const bool nested = !(kernel_.extents[kMiddle] == Expr(1));
    if (nested) {
      body_.open("for (Index m = 0; m < " + extent(kMiddle) + "; ++m)");
    }
    Block middle(context_, &outermost, 2);
    std::set<ScalarId> seen_in_middle;
    for (const LoopKernel::Store& store : kernel_.stores) {
      if (store.span == Span::kColumn) {
        hoist(store.value, 0, 2, middle, seen_in_middle);
      }
    }
    const std::string row = context_.text(kernel_.extents[kMiddle] * kernel_.extents[kInner]);
    emit_inner_loops(middle, "0", extent(kInner), kernel_.extents[kInner].constant(), 1, [&](Block& block, int) {
      const std::string count = block.count().empty() ? "" : ", " + block.count();
      for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
        const LoopKernel::Reduce& reduce = kernel_.reduces[i];
        if (reduce.result != Span::kColumn) {
          continue;
        }
        const std::string name = "r" + std::to_string(i);
        const std::string place = "partial" + std::to_string(i) + " + " + row_position(block.inner());
        body_.line(std::string(vector_type(reduce.dtype)) + " " + name + " = load(" + place + count + ");");
        body_.line("for (Index chunk = 1; chunk < " + chunks + "; ++chunk) " + name + " = " +
                   combine(reduce, name, "load(" + place + " + chunk * " + row + count + ")") + ";");
        if (const ScalarId id = reduced(i); id.valid()) {
          block.set(id, name);
        }
      }
      for (const LoopKernel::Store& store : kernel_.stores) {
        if (store.span == Span::kColumn) {
          const std::string value = block.vector(store.value);
          block.store_vector(context_.operand(store.operand), store.address, value);
        }
      }
    });
    if (nested) {
      body_.close();
    }
  }

  const LoopKernel& kernel_;
  Prelude prelude_;
  Levels levels_;
  Lines body_;
  KernelText text_;
  TextContext context_;
  int lanes_;
  bool parallel_ = false;
  std::vector<RowTemporary> temporaries_;
};

}  // namespace

double estimate_nanoseconds(const LoopProgram& program, const LoopKernel& kernel, int lanes) {
  double operations = 0;
  std::set<ScalarId> seen;
  Levels levels(program.pool, kernel);
  const auto visit = [&](auto&& self, ScalarId id) -> void {
    if (!seen.insert(id).second || levels.of(id) < 3) {
      return;
    }
    const Scalar& scalar = program.pool[id];
    operations += operation_cost(scalar.op);
    for (const ScalarId operand : scalar.operands) {
      self(self, operand);
    }
  };
  for (const LoopKernel::Reduce& reduce : kernel.reduces) {
    operations += 2;
    visit(visit, reduce.body);
  }
  for (const LoopKernel::Store& store : kernel.stores) {
    operations += store.span == Span::kFull ? 2 : 0;
    visit(visit, store.value);
  }
  double elements = 1;
  for (const Expr& extent : kernel.extents) {
    elements *= static_cast<double>(extent.constant().value_or(256));
  }
  // About four vector operations a nanosecond.
  return elements * operations / lanes / 4;
}

KernelText emit_kernel(const LoopProgram& program, const LoopKernel& kernel, const Target& target) {
  return KernelEmitter(program, kernel, target).run();
}

}  // namespace kiln::codegen
