#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "relations.hpp"
#include "wrapper.hpp"

namespace kiln::autograd_dispatch {
namespace {

// Order matters. New elements that autograd does not see belong to the old geometry, those that it
// sees to the new one.
class UpdateArguments : public Wrapper {
 public:
  explicit UpdateArguments(const Plan& plan)
      : grad_mode_(plan.grad_mode), writes_(plan.writes), changes_(plan.changes) {}

  void before(Call& call) const override {
    for (const WritePlan& write : writes_) {
      call.versions.push_back(version_of(call.inputs[write.input]));
    }
  }

  void after(Call& call) const override {
    for (std::size_t i = 0; i < writes_.size(); ++i) {
      if (!writes_[i].visible) {
        write_hidden(call.inputs[writes_[i].input], writes_[i], call.versions[i], call.results);
      }
    }
    for (const ChangePlan& change : changes_) {
      const at::Tensor& argument = call.arguments[change.argument];
      if (change.touched) {
        raise_version(argument);
      }
      if (change.geometry) {
        const at::AutoGradMode mode(change.visible && (c10::GradMode::is_enabled() || !grad_mode_));
        argument.as_strided_(change.geometry->sizes,
                             change.geometry->strides,
                             argument.storage_offset() + change.geometry->offset);
      }
    }
    for (const WritePlan& write : writes_) {
      if (write.visible) {
        const at::AutoGradMode mode(c10::GradMode::is_enabled() || !grad_mode_);
        call.inputs[write.input].copy_(call.results[*write.result]);
      }
    }
  }

 private:
  static void write_hidden(const at::Tensor& input,
                           const WritePlan& write,
                           std::int64_t version,
                           const Tensors& results) {
    if (!write.result) {
      // The graph wrote it. Generated kernels do not count writes, operators of libtorch do.
      if (version_of(input) == version) {
        raise_version(input);
      }
      return;
    }
    const at::NoGradGuard no_grad;
    input.detach().copy_(results[*write.result]);
  }

  bool grad_mode_;  // Of the trace: a function may have switched it on.
  std::vector<WritePlan> writes_;
  std::vector<ChangePlan> changes_;
};

class MoveArguments : public Wrapper {
 public:
  explicit MoveArguments(const Plan& plan) : changes_(plan.changes) {}

  void after(Call& call) const override {
    for (const ChangePlan& change : changes_) {
      const at::Tensor& argument = call.arguments[change.argument];
      if (change.memory) {
        const at::Tensor& memory = call.outputs[*change.memory];
        const at::NoGradGuard no_grad;
        argument.set_(memory.storage(), memory.storage_offset(), memory.sizes(), memory.strides());
      }
      if (change.stops_requiring_grad) {
        if (argument.is_leaf()) {
          argument.set_requires_grad(false);
        } else {
          argument.detach_();
        }
      }
    }
  }

 private:
  std::vector<ChangePlan> changes_;
};

}  // namespace

std::unique_ptr<const Wrapper> update_arguments(const Plan& plan) {
  return std::make_unique<UpdateArguments>(plan);
}

std::unique_ptr<const Wrapper> move_arguments(const Plan& plan) {
  return std::make_unique<MoveArguments>(plan);
}

}  // namespace kiln::autograd_dispatch
