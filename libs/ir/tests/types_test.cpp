#include "kiln/ir/types.hpp"

#include <cmath>

#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TEST_CASE("every element type reads back from its name", "[ir][types]") {
  for (const DType dtype :
       {DType::kUInt8,     DType::kInt8,       DType::kInt16,          DType::kInt32,
        DType::kInt64,     DType::kFloat16,    DType::kFloat32,        DType::kFloat64,
        DType::kComplex32, DType::kComplex64,  DType::kComplex128,     DType::kBool,
        DType::kBFloat16,  DType::kFloat8E5M2, DType::kFloat8E4M3FN,   DType::kUInt16,
        DType::kUInt32,    DType::kUInt64,     DType::kFloat8E5M2FNUZ, DType::kFloat8E4M3FNUZ}) {
    CHECK(parse_dtype(to_string(dtype)) == dtype);
    CHECK(size_of(dtype) > 0);
    CHECK(is_floating_point(dtype) + is_complex(dtype) + is_integral(dtype) ==
          (dtype == DType::kBool ? 0 : 1));
  }
  CHECK_FALSE(parse_dtype("f33").has_value());
  CHECK(size_of(DType::kComplex128) == 16);
}

TEST_CASE("devices read back from their names", "[ir][types]") {
  for (const Device device : {Device{}, Device{DeviceType::kCuda, 3}, Device{DeviceType::kMeta}}) {
    CHECK(parse_device(to_string(device)) == device);
  }
  for (const char* wrong : {"", "cup", "cuda:", "cuda:x", "cuda:-1", "cuda:999", "cuda:1 "}) {
    CHECK_FALSE(parse_device(wrong).has_value());
  }
}

TEST_CASE("layouts and memory formats read back from their names", "[ir][types]") {
  CHECK(parse_memory_format("channels_last") == MemoryFormat::kChannelsLast);
  CHECK(to_string(MemoryFormat::kPreserve) == "preserve_format");
  CHECK(parse_layout("strided") == Layout::kStrided);
  CHECK(to_string(Layout::kSparseCsr) == "sparse_csr");
  CHECK_FALSE(parse_layout("channels_last").has_value());
}

TEST_CASE("numbers are rounded to half types as their elements are", "[ir][types]") {
  CHECK(round_to(0.3, DType::kFloat16) == 0.300048828125);
  CHECK(round_to(0.3, DType::kBFloat16) == 0.30078125);
  CHECK(round_to(-2049, DType::kFloat16) == -2048);  // A tie goes to the even one.
  CHECK(round_to(2051, DType::kFloat16) == 2052);
  CHECK(round_to(65519, DType::kFloat16) == 65504);
  CHECK(std::isinf(round_to(65520, DType::kFloat16)));
  CHECK(round_to(0x1p-25, DType::kFloat16) == 0);
  CHECK(round_to(0x1.8p-24, DType::kFloat16) == 0x1p-23);
  CHECK(round_to(0.3, DType::kFloat32) == 0.3);
  CHECK(std::isnan(round_to(std::nan(""), DType::kBFloat16)));
}

}  // namespace
}  // namespace kiln::ir
