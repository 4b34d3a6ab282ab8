// A package that PyTorch's AOTInductor made (make_package.py), loaded without Python.
//
//   aotinductor-package FOLDER

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <iostream>

#include "kiln/base/file.hpp"
#include "kiln/model.hpp"

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const std::string bytes = kiln::read_file(folder / "example.pt");
  const c10::IValue saved = torch::jit::pickle_load({bytes.begin(), bytes.end()});
  const at::Tensor x = saved.toListRef()[0].toTensor();
  const at::Tensor expected = saved.toListRef()[1].toTensor();

  kiln::Model model = kiln::load(folder / "theirs.pt2", {.instances = 2});
  const at::Tensor answer = model.run({x})[0];

  const bool same = at::allclose(answer, expected, 1e-4, 1e-5);
  std::cout << (same ? "as PyTorch said" : "NOT as PyTorch said") << "; constants:";
  for (const auto& constant : model.constants()) {
    std::cout << " " << constant.fqn;
  }
  std::cout << "\n";
  return same ? 0 : 1;
}
