#include "backend/cpu/match/match.hpp"

#include <utility>

#include "backend/cpu/match/attention.hpp"
#include "backend/cpu/match/packed_convolution.hpp"
#include "backend/cpu/match/packed_gemm.hpp"

namespace kiln::codegen {

std::optional<LibraryMatch> match_library_call(const MatchContext& context,
                                               const ir::Node& node,
                                               const Target& target,
                                               bool winograd) {
  const auto& [graph, uses, program] = context;
  if (std::optional<PackedGemm> found = match_packed_gemm(graph, program, node, target)) {
    return LibraryMatch{plan_packed_gemm(found->layout, target, program.hint),
                        std::move(found->operands)};
  }
  if (std::optional<PackedConvolution> found = match_packed_convolution(graph, program, node)) {
    return LibraryMatch{winograd && is_winograd(found->layout, target, program.hint)
                            ? plan_winograd(found->layout, target)
                            : plan_packed_convolution(found->layout, target, program.hint),
                        std::move(found->operands)};
  }
  if (std::optional<Attention> found = match_attention(graph, uses, program, node, target)) {
    return LibraryMatch{plan_attention(found->layout, target),
                        std::move(found->operands),
                        found->layout.saves_logsumexp ? std::size_t{2} : std::size_t{1}};
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
