#include "kiln/capture/record.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <mutex>

#include "kiln/base/error.hpp"
#include "kiln/capture/twins.hpp"
#include "recorder.hpp"

namespace kiln::capture {
namespace {

void record_call(const c10::OperatorHandle& op,
                 c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  if (Recorder* recorder = Recorder::current()) {
    recorder->call(op, keys, *stack);
  } else {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTracerKey),
                       stack);
  }
}

// Once per process, and only when somebody traces: a second fallback on a key is an error.
void register_tracer() {
  static const c10::RegistrationHandleRAII handle = c10::Dispatcher::singleton().registerFallback(
      kTracerKey, c10::KernelFunction::makeFromBoxedFunction<&record_call>(), "kiln tracer");
}

Recorder& current() {
  Recorder* recorder = Recorder::current();
  ensure(recorder != nullptr, "a scope of the tracer outside a trace");
  return *recorder;
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
  const Tensors arguments = options.on_twins ? make_twins(inputs) : inputs;
  const auto recorder = std::make_shared<Recorder>(options);
  for (const at::Tensor& argument : arguments) {
    recorder->add_input(argument);
  }

  Recording recording;
  {
    const c10::DebugInfoGuard reachable(c10::DebugInfoKind::TEST_INFO_2, recorder);
    const c10::impl::IncludeDispatchKeyGuard recorded(kTracerKey);
    try {
      recording.outputs = function(arguments);
      for (const at::Tensor& output : recording.outputs) {
        recorder->add_output(output);
      }
    } catch (...) {
      const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKey);
      recorder->restore_captured();
      throw;
    }
  }
  recorder->restore_captured();
  recording.graph = recorder->take_graph();
  recording.captured = recorder->take_captured();
  return recording;
}

Tensors captured_so_far() {
  return current().captured();
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

PauseRecording::PauseRecording()
    : was_included_(c10::impl::tls_is_dispatch_key_included(kTracerKey)) {
  c10::impl::tls_set_dispatch_key_included(kTracerKey, false);
}
PauseRecording::~PauseRecording() {
  c10::impl::tls_set_dispatch_key_included(kTracerKey, was_included_);
}

BackwardScope::BackwardScope() : previous_(current().backward) {
  current().backward = true;
}
BackwardScope::~BackwardScope() {
  current().backward = previous_;
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

}  // namespace kiln::capture
