#include "kiln/capture/record.hpp"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "hidden_reads.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/shadow_inputs.hpp"
#include "nested.hpp"
#include "recorder.hpp"
#include "value_free_gradients.hpp"

namespace kiln::capture {
namespace {

template <c10::DispatchKey key>
void record_call(const c10::OperatorHandle& op,
                 c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  Recorder* recorder = Recorder::current();
  const c10::DispatchKeySet below =
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
  if (recorder == nullptr) {
    op.redispatchBoxed(below, stack);
  } else if (recorder->key() == key) {
    recorder->call(op, below, *stack);
  } else if (key == kPreDispatchKey) {
    recorder->call_above_autograd(op, below, *stack);
  } else {
    op.redispatchBoxed(below, stack);
  }
}

template <c10::DispatchKey key>
c10::RegistrationHandleRAII register_on() {
  return c10::Dispatcher::singleton().registerFallback(
      key, c10::KernelFunction::makeFromBoxedFunction<&record_call<key>>(), "kiln tracer");
}

// Once per process, and only when somebody traces: a second fallback on a key is an error.
void register_tracer() {
  static const c10::RegistrationHandleRAII below_autograd = register_on<kTracerKey>();
  static const c10::RegistrationHandleRAII above_autograd = register_on<kPreDispatchKey>();
  register_value_free_gradients();
}

Recorder& current() {
  Recorder* recorder = Recorder::current();
  ensure(recorder != nullptr, "a scope of the tracer outside a trace");
  return *recorder;
}

// The program has thrown, and that is what its caller is to hear of.
void compute_escaped_after_failure(Recorder& recorder, const Tensors& inputs) {
  try {
    recorder.escaped().compute(recorder.graph(), inputs, recorder.captured(), {});
  } catch (const std::exception& error) {
    KILN_LOG(kWarning,
             "capture",
             "the program keeps a tensor that its trace has not computed, and that cannot be "
             "computed: "
                 << error.what());
  }
}

Recording trace(const TensorFunction& function,
                const Tensors& inputs,
                const RecordOptions& options) {
  ensure(options.on_shadow_inputs || !options.without_values, "a call returns what it computes");
  const auto recorder = std::make_shared<Recorder>(options);
  Tensors arguments = inputs;
  if (options.on_shadow_inputs) {
    const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
    arguments = make_shadow_inputs(inputs);
  }
  for (const at::Tensor& argument : arguments) {
    recorder->add_argument(argument);
  }

  Recording recording;
  const UnseededGenerator generator = [] {
    const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
    return UnseededGenerator();
  }();
  {
    const c10::DebugInfoGuard reachable(c10::DebugInfoKind::TEST_INFO_2, recorder);
    const c10::impl::IncludeDispatchKeyGuard recorded(
        options.pre_dispatch ? c10::DispatchKeySet(kPreDispatchKey) : kTracerKeys);
    const ValueFreeGradients gradients(/*enabled=*/!options.pre_dispatch);
    try {
      recording.outputs = function(arguments);
      recorder->require_lasting_memory({});
      for (const at::Tensor& output : recording.outputs) {
        recorder->add_output(output);
      }
    } catch (...) {
      const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
      recorder->restore_captured();
      generator.restore_if_seeded();
      recording.outputs.clear();
      compute_escaped_after_failure(*recorder, inputs);
      throw;
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
  recorder->restore_captured();
  if (options.on_shadow_inputs && generator.restore_if_seeded()) {
    throw Error(ErrorCode::kUnsupported,
                "the program seeds the default generator, which a compiled one would do once: call "
                "torch::manual_seed outside of it");
  }
  recording.compute_escaped = [escaped = recorder->escaped(),
                               graph = recorder->graph(),
                               inputs,
                               captured = recorder->captured()](const Tensors& returned) {
    return escaped.compute(graph, inputs, captured, returned);
  };
  recording.graph = recorder->take_graph();
  recording.captured = recorder->take_captured();
  recording.deferred_effects = recorder->deferred_effects();
  recording.repeated_effects = recorder->take_repeated_effects();
  return recording;
}

}  // namespace

bool is_recording() {
  return Recorder::current() != nullptr;
}

Recording record(const TensorFunction& function,
                 const Tensors& inputs,
                 const RecordOptions& options) {
  if (is_recording()) {
    throw Error(ErrorCode::kInvalidArgument, "this thread is already recording a program");
  }
  register_tracer();
  if (!options.check_hidden_reads) {
    return trace(function, inputs, options);
  }
  RecordOptions shadowed = options;
  shadowed.on_shadow_inputs = true;
  if (!options.on_shadow_inputs) {
    shadowed.on_capture = {};
  }
  Recording recording = trace(function, inputs, shadowed);
  shadowed.on_capture = {};
  refuse_hidden_reads(
      recording, inputs, [&](const Tensors& others) { return trace(function, others, shadowed); });
  return options.on_shadow_inputs ? std::move(recording) : trace(function, inputs, options);
}

Recording record_nested(const TensorFunction& function, const Tensors& inputs) {
  RecordOptions options = current().options();
  options.on_shadow_inputs = true;
  options.on_capture = {};
  return trace(function, inputs, options);
}

Tensors captured_so_far() {
  return current().captured();
}

std::vector<std::size_t> references_to_borrowed() {
  return current().references_to_borrowed();
}

void require_lasting_memory(const std::vector<std::size_t>& held) {
  current().require_lasting_memory(held);
}

void note_use(const at::Tensor& tensor) {
  current().note_use(tensor);
}

bool is_written(const c10::Storage& storage) {
  return current().is_written(storage);
}

void declare_input(const at::Tensor& tensor, ir::InputKind kind) {
  current().add_input(tensor, kind);
}

at::Tensor make_placeholder_like(const at::Tensor& tensor) {
  return current().make_placeholder_like(tensor);
}

PauseRecording::PauseRecording()
    : below_(c10::impl::tls_is_dispatch_key_included(kTracerKey)),
      above_(c10::impl::tls_is_dispatch_key_included(kPreDispatchKey)) {
  c10::impl::tls_set_dispatch_key_included(kTracerKey, false);
  c10::impl::tls_set_dispatch_key_included(kPreDispatchKey, false);
}
PauseRecording::~PauseRecording() {
  c10::impl::tls_set_dispatch_key_included(kTracerKey, below_);
  c10::impl::tls_set_dispatch_key_included(kPreDispatchKey, above_);
}

GradModeScope::GradModeScope(bool enabled) : previous_(c10::GradMode::is_enabled()) {
  set_grad_mode(enabled);
}
GradModeScope::~GradModeScope() {
  set_grad_mode(previous_);
}

void set_grad_mode(bool enabled) {
  c10::GradMode::set_enabled(enabled);
  if (Recorder* recorder = Recorder::current()) {
    recorder->set_grad_mode(enabled);
  }
}

BackwardScope::BackwardScope() : previous_(current().backward) {
  current().backward = true;
}
BackwardScope::~BackwardScope() {
  current().backward = previous_;
}

EffectScope::EffectScope() {
  if (Recorder* recorder = Recorder::current()) {
    previous_ = std::exchange(recorder->effects, true);
  }
}
EffectScope::~EffectScope() {
  if (Recorder* recorder = Recorder::current()) {
    recorder->effects = previous_;
  }
}

ModuleScope::ModuleScope(const std::string& path) {
  if (Recorder* recorder = Recorder::current()) {
    previous_ = recorder->module_path;
    recorder->module_path = path;
  }
}
ModuleScope::~ModuleScope() {
  if (Recorder* recorder = Recorder::current()) {
    recorder->module_path = previous_;
  }
}

SourceScope::SourceScope(std::source_location here)
    : SourceScope(std::filesystem::path(here.file_name()).filename().string() + ":" +
                  std::to_string(here.line())) {}
SourceScope::SourceScope(std::string source) {
  if (Recorder* recorder = Recorder::current()) {
    previous_ = std::exchange(recorder->source, std::move(source));
  }
}
SourceScope::~SourceScope() {
  if (Recorder* recorder = Recorder::current()) {
    recorder->source = previous_;
  }
}

}  // namespace kiln::capture
