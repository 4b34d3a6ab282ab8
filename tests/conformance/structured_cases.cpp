#include "operator_cases.hpp"

#include <torch/version.h>

namespace kiln::testing {

std::vector<OperatorCase> structured_cases() {
  return {
      {"mm", [](const Operands& x) -> at::Tensor { return x.a.mm(x.m); }},
      {"addmm", [](const Operands& x) -> at::Tensor { return at::addmm(x.c, x.a, x.m, 0.5, 2); }},
      {"addmm_", [](const Operands& x) -> at::Tensor { return x.c.clone().addmm_(x.a, x.m); }},
      {"bmm",
       [](const Operands& x) -> at::Tensor { return x.a.unsqueeze(0).bmm(x.m.unsqueeze(0)); }},
      {"baddbmm",
       [](const Operands& x) -> at::Tensor {
         return at::baddbmm(x.c.unsqueeze(0), x.a.unsqueeze(0), x.m.unsqueeze(0));
       }},
      {"addbmm",
       [](const Operands& x) -> at::Tensor {
         return at::addbmm(x.c, x.a.unsqueeze(0), x.m.unsqueeze(0));
       }},
      {"mv", [](const Operands& x) -> at::Tensor { return x.a.mv(x.v); }},
      {"addmv",
       [](const Operands& x) -> at::Tensor { return at::addmv(x.c.select(0, 0), x.a, x.v); }},
      {"dot", [](const Operands& x) -> at::Tensor { return x.v.dot(x.v * 2); }},
      {"vdot", [](const Operands& x) -> at::Tensor { return x.v.vdot(x.v * 2); }},
      {"outer", [](const Operands& x) -> at::Tensor { return x.v.outer(x.v); }},
      {"addr", [](const Operands& x) -> at::Tensor { return at::addr(x.s, x.v, x.v); }},
      {"matmul", [](const Operands& x) -> at::Tensor { return x.a.matmul(x.s); }},
      {"linear", [](const Operands& x) -> at::Tensor { return at::linear(x.a, x.s, x.v); }},
      {"kron", [](const Operands& x) -> at::Tensor { return at::kron(x.c, x.c); }},
      {"tensordot",
       [](const Operands& x) -> at::Tensor { return at::tensordot(x.a, x.b, {1}, {1}); }},
      {"einsum",
       [](const Operands& x) -> at::Tensor { return at::einsum("ij,jk->ik", {x.a, x.m}); }},
      {"cdist", [](const Operands& x) -> at::Tensor { return at::cdist(x.a, x.b); }},
      {"pdist", [](const Operands& x) -> at::Tensor { return at::pdist(x.a); }},
      {"cosine_similarity",
       [](const Operands& x) -> at::Tensor { return at::cosine_similarity(x.a, x.b); }},
      {"pairwise_distance",
       [](const Operands& x) -> at::Tensor { return at::pairwise_distance(x.a, x.b); }},
      {"dist", [](const Operands& x) -> at::Tensor { return x.a.dist(x.b); }},
      {"amax", [](const Operands& x) -> at::Tensor { return x.a.amax(); }},
      {"amax.dim", [](const Operands& x) -> at::Tensor { return x.a.amax(1); }},
      {"amin", [](const Operands& x) -> at::Tensor { return x.a.amin(); }},
      {"amin.dim", [](const Operands& x) -> at::Tensor { return x.a.amin(1); }},
      {"sum", [](const Operands& x) -> at::Tensor { return x.a.sum(); }},
      {"sum.dim", [](const Operands& x) -> at::Tensor { return x.a.sum(at::IntArrayRef{1}); }},
      {"mean", [](const Operands& x) -> at::Tensor { return x.a.mean(); }},
      {"mean.dim", [](const Operands& x) -> at::Tensor { return x.a.mean(at::IntArrayRef{1}); }},
      {"nansum", [](const Operands& x) -> at::Tensor { return x.a.nansum(); }},
      {"nansum.dim",
       [](const Operands& x) -> at::Tensor { return x.a.nansum(at::IntArrayRef{1}); }},
      {"nanmean", [](const Operands& x) -> at::Tensor { return x.a.nanmean(); }},
      {"nanmean.dim",
       [](const Operands& x) -> at::Tensor { return x.a.nanmean(at::IntArrayRef{1}); }},
      {"std", [](const Operands& x) -> at::Tensor { return x.a.std(); }},
      {"std.dim",
       [](const Operands& x) -> at::Tensor { return x.a.std(at::IntArrayRef{1}, false); }},
      {"var", [](const Operands& x) -> at::Tensor { return x.a.var(); }},
      {"var.dim",
       [](const Operands& x) -> at::Tensor { return x.a.var(at::IntArrayRef{1}, false); }},
      {"prod", [](const Operands& x) -> at::Tensor { return x.a.prod(); }},
      {"prod.dim", [](const Operands& x) -> at::Tensor { return x.a.prod(1); }},
      {"cumprod", [](const Operands& x) -> at::Tensor { return x.a.cumprod(1); }},
      {"max", [](const Operands& x) -> at::Tensor { return x.a.max(); }},
      {"min", [](const Operands& x) -> at::Tensor { return x.a.min(); }},
      {"median", [](const Operands& x) -> at::Tensor { return x.a.median(); }},
      {"nanmedian", [](const Operands& x) -> at::Tensor { return x.a.nanmedian(); }},
      {"median.dim", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.median(1)); }},
      {"nanmedian.dim",
       [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.nanmedian(1)); }},
      {"logsumexp", [](const Operands& x) -> at::Tensor { return x.a.logsumexp(1); }},
      {"norm", [](const Operands& x) -> at::Tensor { return x.a.norm(); }},
      {"norm.dim", [](const Operands& x) -> at::Tensor { return x.a.norm(2, 1); }},
      {"norm of order 3", [](const Operands& x) -> at::Tensor { return x.a.norm(3); }},
      {"max.dim", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.max(1)); }},
      {"min.dim", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.min(1)); }},
      {"mode", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.mode(1)); }},
      {"kthvalue", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.kthvalue(2, 1)); }},
      {"topk", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.topk(2, 1)); }},
      {"sort", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.sort(1)); }},
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12  // Before, it has no derivative.
      {"aminmax", [](const Operands& x) -> at::Tensor { return std::get<0>(at::aminmax(x.a)); }},
#endif
      {"renorm", [](const Operands& x) -> at::Tensor { return x.a.renorm(2, 0, 0.5); }},
      {"cumsum", [](const Operands& x) -> at::Tensor { return x.a.cumsum(1); }},
      {"logcumsumexp", [](const Operands& x) -> at::Tensor { return x.a.logcumsumexp(1); }},
      {"cumsum_", [](const Operands& x) -> at::Tensor { return x.a.clone().cumsum_(1); }},
      {"cummax", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.cummax(1)); }},
      {"cummin", [](const Operands& x) -> at::Tensor { return std::get<0>(x.a.cummin(1)); }},
      {"trapezoid", [](const Operands& x) -> at::Tensor { return at::trapezoid(x.a); }},
      {"diff", [](const Operands& x) -> at::Tensor { return x.a.diff(); }},
      {"var_mean",
       [](const Operands& x) -> at::Tensor { return std::get<1>(at::var_mean(x.a, {1})); }},
      {"std_mean",
       [](const Operands& x) -> at::Tensor { return std::get<0>(at::std_mean(x.a, {1})); }},
      {"cat", [](const Operands& x) -> at::Tensor { return at::cat({x.a, x.b}, 1); }},
      {"stack", [](const Operands& x) -> at::Tensor { return at::stack({x.a, x.b}); }},
      {"split", [](const Operands& x) -> at::Tensor { return x.a.split(2, 1)[1] * 2; }},
      {"split_with_sizes",
       [](const Operands& x) -> at::Tensor { return x.a.split_with_sizes({1, 3}, 1)[1] * 2; }},
      {"unbind", [](const Operands& x) -> at::Tensor { return x.a.unbind(0)[1] * 2; }},
      {"narrow", [](const Operands& x) -> at::Tensor { return x.a.narrow(1, 1, 2) * 2; }},
      {"select", [](const Operands& x) -> at::Tensor { return x.a.select(0, 1) * 2; }},
      {"slice", [](const Operands& x) -> at::Tensor { return x.a.slice(1, 0, 4, 2) * 2; }},
      {"permute", [](const Operands& x) -> at::Tensor { return x.a.permute({1, 0}) * 2; }},
      {"transpose", [](const Operands& x) -> at::Tensor { return x.a.transpose(0, 1) * 2; }},
      {"t", [](const Operands& x) -> at::Tensor { return x.a.t() * 2; }},
      {"movedim", [](const Operands& x) -> at::Tensor { return x.a.movedim(0, 1) * 2; }},
      {"view", [](const Operands& x) -> at::Tensor { return x.a.view({-1}) * 2; }},
      {"reshape", [](const Operands& x) -> at::Tensor { return x.a.reshape({2, 6}) * 2; }},
      {"flatten", [](const Operands& x) -> at::Tensor { return x.a.flatten() * 2; }},
      {"squeeze", [](const Operands& x) -> at::Tensor { return x.a.unsqueeze(0).squeeze(0) * 2; }},
      {"unsqueeze", [](const Operands& x) -> at::Tensor { return x.a.unsqueeze(1) * 2; }},
      {"expand",
       [](const Operands& x) -> at::Tensor { return x.a.unsqueeze(0).expand({2, 3, 4}) * 2; }},
      {"unfold", [](const Operands& x) -> at::Tensor { return x.a.unfold(1, 2, 1) * 2; }},
      {"as_strided",
       [](const Operands& x) -> at::Tensor { return x.a.as_strided({2, 2}, {1, 2}, 1) * 2; }},
      {"diagonal", [](const Operands& x) -> at::Tensor { return x.a.diagonal() * 2; }},
      {"repeat", [](const Operands& x) -> at::Tensor { return x.a.repeat({2, 1}) * 2; }},
      {"tile", [](const Operands& x) -> at::Tensor { return x.a.tile({2, 1}) * 2; }},
      {"flip", [](const Operands& x) -> at::Tensor { return x.a.flip({1}) * 2; }},
      {"roll", [](const Operands& x) -> at::Tensor { return x.a.roll(1, 0) * 2; }},
      {"rot90", [](const Operands& x) -> at::Tensor { return x.a.rot90() * 2; }},
      {"tril", [](const Operands& x) -> at::Tensor { return x.a.tril() * 2; }},
      {"triu", [](const Operands& x) -> at::Tensor { return x.a.triu() * 2; }},
      {"contiguous", [](const Operands& x) -> at::Tensor { return x.a.t().contiguous() * 2; }},
      {"clone", [](const Operands& x) -> at::Tensor { return x.a.clone() * 2; }},
      {"to double", [](const Operands& x) -> at::Tensor { return x.a.to(at::kDouble) * 2; }},
      {"to half and back",
       [](const Operands& x) -> at::Tensor { return x.a.to(at::kHalf).to(at::kFloat) * 2; }},
      {"repeat_interleave",
       [](const Operands& x) -> at::Tensor { return x.a.repeat_interleave(2, 1) * 2; }},
      {"index_select",
       [](const Operands& x) -> at::Tensor { return x.a.index_select(1, at::arange(2)) * 2; }},
      {"gather",
       [](const Operands& x) -> at::Tensor {
         return x.a.gather(1, at::zeros({3, 2}, at::kLong)) * 2;
       }},
      {"take", [](const Operands& x) -> at::Tensor { return x.a.take(at::arange(3)) * 2; }},
      {"masked_fill",
       [](const Operands& x) -> at::Tensor { return x.a.masked_fill(x.b > 0.5, 2.0) * 2; }},
      {"fill_diagonal_",
       [](const Operands& x) -> at::Tensor { return x.a.clone().fill_diagonal_(1) * 2; }},
      {"diag", [](const Operands& x) -> at::Tensor { return x.v.diag(); }},
      {"diag_embed", [](const Operands& x) -> at::Tensor { return x.a.diag_embed(); }},
      {"trace", [](const Operands& x) -> at::Tensor { return x.s.trace(); }},
      {"block_diag", [](const Operands& x) -> at::Tensor { return at::block_diag({x.a, x.b}); }},
      {"scatter.src",
       [](const Operands& x) -> at::Tensor {
         return x.a.scatter(1, at::arange(4).expand({3, 4}), x.b);
       }},
      {"scatter.value",
       [](const Operands& x) -> at::Tensor {
         return x.a.scatter(1, at::zeros({3, 1}, at::kLong), 0.5);
       }},
      {"scatter_add",
       [](const Operands& x) -> at::Tensor {
         return x.a.scatter_add(1, at::zeros({3, 4}, at::kLong), x.b);
       }},
      {"scatter_add_",
       [](const Operands& x) -> at::Tensor {
         return x.a.clone().scatter_add_(1, at::zeros({3, 4}, at::kLong), x.b);
       }},
      {"scatter_reduce",
       [](const Operands& x) -> at::Tensor {
         return x.a.scatter_reduce(1, at::zeros({3, 4}, at::kLong), x.b, "sum");
       }},
      {"index_add",
       [](const Operands& x) -> at::Tensor { return x.a.index_add(1, at::arange(4), x.b); }},
      {"index_copy",
       [](const Operands& x) -> at::Tensor { return x.a.index_copy(1, at::arange(4), x.b); }},
      {"index_fill",
       [](const Operands& x) -> at::Tensor { return x.a.index_fill(1, at::arange(2), 0.5); }},
      {"index", [](const Operands& x) -> at::Tensor { return x.a.index({at::arange(2)}); }},
      {"index_put",
       [](const Operands& x) -> at::Tensor { return x.a.index_put({at::arange(3)}, x.b); }},
      {"index_put_ accumulate",
       [](const Operands& x) -> at::Tensor {
         return x.a.clone().index_put_({at::zeros({3}, at::kLong)}, x.b, true);
       }},
      {"masked_fill_",
       [](const Operands& x) -> at::Tensor { return x.a.clone().masked_fill_(x.b > 0.5, 2.0); }},
      {"select_scatter",
       [](const Operands& x) -> at::Tensor { return x.a.select_scatter(x.v, 0, 1); }},
      {"slice_scatter",
       [](const Operands& x) -> at::Tensor {
         return x.a.slice_scatter(x.b.slice(1, 0, 2), 1, 0, 2);
       }},
      {"diagonal_scatter",
       [](const Operands& x) -> at::Tensor { return x.s.diagonal_scatter(x.v); }},
      {"put", [](const Operands& x) -> at::Tensor { return x.a.put(at::arange(4), x.v); }},
      {"a write through a view",
       [](const Operands& x) -> at::Tensor {
         return written(x.a * 1, [](at::Tensor& t) { t.select(0, 1).mul_(3); });
       }},
      {"a write to a diagonal",
       [](const Operands& x) -> at::Tensor {
         return written(x.s * 1, [&](at::Tensor& t) { t.diagonal().add_(x.v); });
       }},
      {"constant_pad_nd",
       [](const Operands& x) -> at::Tensor { return at::constant_pad_nd(x.a, {1, 1}); }},
      {"reflection_pad1d",
       [](const Operands& x) -> at::Tensor { return at::reflection_pad1d(x.a, {1, 1}); }},
      {"replication_pad1d",
       [](const Operands& x) -> at::Tensor { return at::replication_pad1d(x.a, {1, 1}); }},
      {"reflection_pad2d",
       [](const Operands& x) -> at::Tensor { return at::reflection_pad2d(x.image, {1, 1, 1, 1}); }},
      {"replication_pad2d",
       [](const Operands& x) -> at::Tensor {
         return at::replication_pad2d(x.image, {1, 1, 1, 1});
       }},
      {"softmax", [](const Operands& x) -> at::Tensor { return x.a.softmax(1); }},
      {"log_softmax", [](const Operands& x) -> at::Tensor { return x.a.log_softmax(1); }},
      {"mse_loss", [](const Operands& x) -> at::Tensor { return at::mse_loss(x.a, x.b); }},
      {"l1_loss", [](const Operands& x) -> at::Tensor { return at::l1_loss(x.a, x.b); }},
      {"smooth_l1_loss",
       [](const Operands& x) -> at::Tensor { return at::smooth_l1_loss(x.a, x.b); }},
      {"huber_loss", [](const Operands& x) -> at::Tensor { return at::huber_loss(x.a, x.b); }},
      {"binary_cross_entropy",
       [](const Operands& x) -> at::Tensor { return at::binary_cross_entropy(x.a, x.b.detach()); }},
      {"binary_cross_entropy_with_logits",
       [](const Operands& x) -> at::Tensor {
         return at::binary_cross_entropy_with_logits(x.a, x.b.detach());
       }},
      {"kl_div", [](const Operands& x) -> at::Tensor { return at::kl_div(x.a, x.b); }},
      {"soft_margin_loss",
       [](const Operands& x) -> at::Tensor { return at::soft_margin_loss(x.a, x.b.detach()); }},
      {"cosine_embedding_loss",
       [](const Operands& x) -> at::Tensor {
         return at::cosine_embedding_loss(x.a, x.b, at::ones({3}));
       }},
      {"margin_ranking_loss",
       [](const Operands& x) -> at::Tensor {
         return at::margin_ranking_loss(x.a, x.b, at::ones({3, 4}));
       }},
      {"triplet_margin_loss",
       [](const Operands& x) -> at::Tensor {
         return at::triplet_margin_loss(x.a, x.b, x.a * x.b);
       }},
      {"nll_loss",
       [](const Operands& x) -> at::Tensor { return at::nll_loss(x.a.log(), at::arange(3)); }},
      {"cross_entropy_loss",
       [](const Operands& x) -> at::Tensor { return at::cross_entropy_loss(x.a, at::arange(3)); }},
      {"multi_margin_loss",
       [](const Operands& x) -> at::Tensor { return at::multi_margin_loss(x.a, at::arange(3)); }},
      {"conv2d",
       [](const Operands& x) -> at::Tensor { return at::conv2d(x.image, x.kernel, x.v, 1, 1); }},
      {"conv2d with a stride",
       [](const Operands& x) -> at::Tensor { return at::conv2d(x.image, x.kernel, {}, 2); }},
      {"conv_transpose2d",
       [](const Operands& x) -> at::Tensor {
         return at::conv_transpose2d(x.image, x.kernel.transpose(0, 1).contiguous());
       }},
      {"conv2d in groups",
       [](const Operands& x) -> at::Tensor {
         return at::conv2d(
             x.image, x.kernel.slice(0, 0, 3).slice(1, 0, 1), {}, 1, at::IntArrayRef{0}, 1, 3);
       }},
      {"max_pool2d", [](const Operands& x) -> at::Tensor { return at::max_pool2d(x.image, 2); }},
      {"max_pool3d",
       [](const Operands& x) -> at::Tensor { return at::max_pool3d(x.image.unsqueeze(0), 2); }},
      {"avg_pool2d", [](const Operands& x) -> at::Tensor { return at::avg_pool2d(x.image, 2); }},
      {"avg_pool3d",
       [](const Operands& x) -> at::Tensor { return at::avg_pool3d(x.image.unsqueeze(0), 2); }},
      {"adaptive_avg_pool2d",
       [](const Operands& x) -> at::Tensor { return at::adaptive_avg_pool2d(x.image, {3, 3}); }},
      {"adaptive_avg_pool3d",
       [](const Operands& x) -> at::Tensor {
         return at::adaptive_avg_pool3d(x.image.unsqueeze(0), {2, 2, 2});
       }},
      {"adaptive_max_pool2d",
       [](const Operands& x) -> at::Tensor {
         return std::get<0>(at::adaptive_max_pool2d(x.image, {3, 3}));
       }},
      {"layer_norm",
       [](const Operands& x) -> at::Tensor { return at::layer_norm(x.a, {4}, x.v, x.v); }},
      {"group_norm", [](const Operands& x) -> at::Tensor { return at::group_norm(x.image, 3); }},
      {"batch_norm",
       [](const Operands& x) -> at::Tensor {
         return at::batch_norm(x.image, {}, {}, {}, {}, true, 0.1, 1e-5, false);
       }},
      {"instance_norm",
       [](const Operands& x) -> at::Tensor {
         return at::instance_norm(x.image, {}, {}, {}, {}, true, 0.1, 1e-5, false);
       }},
      {"rms_norm", [](const Operands& x) -> at::Tensor { return at::rms_norm(x.a, {4}, x.v); }},
      {"embedding",
       [](const Operands& x) -> at::Tensor { return at::embedding(x.s, at::arange(3)); }},
      {"embedding_bag",
       [](const Operands& x) -> at::Tensor {
         return std::get<0>(at::embedding_bag(x.s, at::arange(4), at::arange(0, 4, 2)));
       }},
      {"pixel_unshuffle",
       [](const Operands& x) -> at::Tensor { return at::pixel_unshuffle(x.image, 2); }},
      {"im2col",
       [](const Operands& x) -> at::Tensor {
         return at::im2col(x.image, {2, 2}, {1, 1}, {0, 0}, {2, 2});
       }},
      {"upsample_nearest2d",
       [](const Operands& x) -> at::Tensor { return at::upsample_nearest2d(x.image, {16, 16}); }},
      {"upsample_bilinear2d",
       [](const Operands& x) -> at::Tensor {
         return at::upsample_bilinear2d(x.image, {16, 16}, false);
       }},
      {"upsample_bicubic2d",
       [](const Operands& x) -> at::Tensor {
         return at::upsample_bicubic2d(x.image, {16, 16}, false);
       }},
      {"grid_sampler",
       [](const Operands& x) -> at::Tensor {
         return at::grid_sampler(
             x.image, x.image.slice(1, 0, 2).permute({0, 2, 3, 1}), 0, 0, false);
       }},
      {"scaled_dot_product_attention",
       [](const Operands& x) -> at::Tensor {
         return at::scaled_dot_product_attention(x.image, x.image, x.image);
       }},
      {"causal attention",
       [](const Operands& x) -> at::Tensor {
         return at::scaled_dot_product_attention(x.image, x.image * 2, x.image, {}, 0.0, true);
       }},
      {"dropout", [](const Operands& x) -> at::Tensor { return at::dropout(x.a, 0.5, true); }},
      {"bernoulli", [](const Operands& x) -> at::Tensor { return at::bernoulli(x.a) * x.b; }},
      {"gru_cell",
       [](const Operands& x) -> at::Tensor {
         return at::gru_cell(x.a, x.b, x.s.repeat({3, 1}), x.s.repeat({3, 1}));
       }},
      {"rnn_tanh_cell",
       [](const Operands& x) -> at::Tensor { return at::rnn_tanh_cell(x.a, x.b, x.s, x.s); }},
      {"linalg_det",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_det((x.s.mm(x.s.t()) + 4 * at::eye(4)));
       }},
      {"linalg_inv",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_inv((x.s.mm(x.s.t()) + 4 * at::eye(4)));
       }},
      {"linalg_solve",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_solve((x.s.mm(x.s.t()) + 4 * at::eye(4)), x.v);
       }},
      {"linalg_cholesky",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_cholesky((x.s.mm(x.s.t()) + 4 * at::eye(4)));
       }},
      {"linalg_qr",
       [](const Operands& x) -> at::Tensor {
         return std::get<1>(at::linalg_qr((x.s.mm(x.s.t()) + 4 * at::eye(4))));
       }},
      {"linalg_svdvals",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_svdvals((x.s.mm(x.s.t()) + 4 * at::eye(4)));
       }},
      {"linalg_eigvalsh",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_eigvalsh((x.s.mm(x.s.t()) + 4 * at::eye(4)));
       }},
      {"linalg_slogdet",
       [](const Operands& x) -> at::Tensor {
         return std::get<1>(at::linalg_slogdet((x.s.mm(x.s.t()) + 4 * at::eye(4))));
       }},
      {"matrix_exp", [](const Operands& x) -> at::Tensor { return at::matrix_exp(x.s); }},
      {"matrix_power", [](const Operands& x) -> at::Tensor { return at::matrix_power(x.s, 3); }},
      {"linalg_vector_norm",
       [](const Operands& x) -> at::Tensor { return at::linalg_vector_norm(x.v, 3); }},
      {"linalg_solve_triangular",
       [](const Operands& x) -> at::Tensor {
         return at::linalg_solve_triangular((x.s.mm(x.s.t()) + 4 * at::eye(4)), x.m, true);
       }},
      {"linalg_lu_factor",
       [](const Operands& x) -> at::Tensor {
         return std::get<0>(at::linalg_lu_factor((x.s.mm(x.s.t()) + 4 * at::eye(4))));
       }},
      {"linalg_cross",
       [](const Operands& x) -> at::Tensor { return at::linalg_cross(x.c, x.c * x.c); }},
      {"fft_fft", [](const Operands& x) -> at::Tensor { return at::fft_fft(x.a).abs(); }},
      {"fft_rfft", [](const Operands& x) -> at::Tensor { return at::fft_rfft(x.a).abs(); }},
      {"fft_irfft",
       [](const Operands& x) -> at::Tensor { return at::fft_irfft(at::complex(x.a, x.b)); }},
      {"complex", [](const Operands& x) -> at::Tensor { return at::complex(x.a, x.b).abs(); }},
      {"polar", [](const Operands& x) -> at::Tensor { return at::polar(x.a, x.b).abs(); }},
      {"view_as_complex",
       [](const Operands& x) -> at::Tensor {
         return at::view_as_complex(x.a.view({3, 2, 2})).abs();
       }},
      {"view_as_real",
       [](const Operands& x) -> at::Tensor { return at::view_as_real(at::complex(x.a, x.b)) * 2; }},
      {"conj",
       [](const Operands& x) -> at::Tensor {
         return at::real(at::complex(x.a, x.b).conj() * at::complex(x.b, x.a));
       }},
      {"complex mm",
       [](const Operands& x) -> at::Tensor {
         return at::complex(x.a, x.b).mm(at::complex(x.m, x.m)).abs();
       }},
  };
}

}  // namespace kiln::testing
