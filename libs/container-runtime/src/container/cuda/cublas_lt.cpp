#include "container/cuda/cublas_lt.hpp"

#include <dlfcn.h>

#include <array>
#include <string>
#include <type_traits>

#include "container/failure.hpp"

namespace kiln::container::cuda {
namespace {

// That of libtorch: one of its own would be of another CUDA, and take memory of its own.
void* find_loaded() {
  static_cast<void>(torch_cuda());  // It depends on the library.
  for (const char* name : std::array{"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      return library;
    }
  }
  // One that is linked into libtorch.
  return torch_cuda().library;
}

CublasLt load() {
  void* const library = find_loaded();
  CublasLt lt;
  const auto find = [library](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (entry == nullptr) {
      throw Failure(
          std::string("the model multiplies matrices by cuBLASLt, and libtorch's has no ") + name);
    }
  };
  find(lt.create, "cublasLtCreate");
  find(lt.destroy, "cublasLtDestroy");
  find(lt.create_matmul_desc, "cublasLtMatmulDescCreate");
  find(lt.destroy_matmul_desc, "cublasLtMatmulDescDestroy");
  find(lt.set_matmul_desc, "cublasLtMatmulDescSetAttribute");
  find(lt.create_layout, "cublasLtMatrixLayoutCreate");
  find(lt.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(lt.create_preference, "cublasLtMatmulPreferenceCreate");
  find(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.matmul, "cublasLtMatmul");
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt loaded = load();
  return loaded;
}

}  // namespace kiln::container::cuda
