#include "module_cases.hpp"

namespace kiln::testing {
namespace {

using Shape = std::vector<std::int64_t>;

struct Table {
  std::vector<ModuleCase> cases = {};

  template <class Make>
  void on(const std::string& name, Make make, const Shape& shape) {
    cases.push_back(module_case(name, make, [=] { return Tensors{normal(shape)}; }));
  }
  template <class Make>
  void on_two(const std::string& name, Make make, const Shape& first, const Shape& second) {
    cases.push_back(
        module_case<2>(name, make, [=] { return Tensors{normal(first), normal(second)}; }));
  }
};

void add_products(Table& table) {
  using namespace torch::nn;
  table.on("Linear", [] { return Linear(6, 3); }, {2, 6});
  table.on("Linear without bias", [] { return Linear(LinearOptions(6, 3).bias(false)); }, {6});
  table.on_two("Bilinear", [] { return Bilinear(3, 4, 2); }, {5, 3}, {5, 4});
  table.on("Conv1d", [] { return Conv1d(Conv1dOptions(3, 4, 3).padding(1)); }, {2, 3, 7});
  table.on(
      "Conv2d", [] { return Conv2d(Conv2dOptions(4, 6, 3).stride(2).groups(2)); }, {2, 4, 7, 7});
  table.on("Conv2d reflecting",
           [] { return Conv2d(Conv2dOptions(2, 3, 3).padding(1).padding_mode(torch::kReflect)); },
           {1, 2, 5, 5});
  table.on("Conv3d", [] { return Conv3d(Conv3dOptions(2, 3, 2)); }, {1, 2, 4, 4, 4});
  table.on("ConvTranspose1d",
           [] { return ConvTranspose1d(ConvTranspose1dOptions(3, 2, 3).stride(2)); },
           {2, 3, 5});
  table.on("ConvTranspose2d",
           [] { return ConvTranspose2d(ConvTranspose2dOptions(3, 2, 3)); },
           {1, 3, 4, 4});
  table.on("ConvTranspose3d",
           [] { return ConvTranspose3d(ConvTranspose3dOptions(2, 2, 2)); },
           {1, 2, 3, 3, 3});
  table.cases.push_back(module_case(
      "Embedding", [] { return Embedding(10, 4); }, [] { return Tensors{integers(10, {2, 3})}; }));
  table.cases.push_back(module_case<2>(
      "EmbeddingBag",
      [] { return EmbeddingBag(EmbeddingBagOptions(10, 4).mode(torch::kSum)); },
      [] { return Tensors{integers(10, {6}), torch::tensor({0, 2, 3})}; }));
}

void add_norms(Table& table) {
  using namespace torch::nn;
  table.on("BatchNorm1d", [] { return BatchNorm1d(4); }, {6, 4});
  table.on("BatchNorm2d", [] { return BatchNorm2d(4); }, {3, 4, 3, 3});
  table.on("BatchNorm2d without statistics",
           [] { return BatchNorm2d(BatchNorm2dOptions(4).track_running_stats(false)); },
           {3, 4, 3, 3});
  table.on("BatchNorm3d", [] { return BatchNorm3d(2); }, {2, 2, 2, 3, 3});
  table.on("InstanceNorm1d",
           [] { return InstanceNorm1d(InstanceNorm1dOptions(4).affine(true)); },
           {2, 4, 6});
  table.on("InstanceNorm2d",
           [] { return InstanceNorm2d(InstanceNorm2dOptions(4).track_running_stats(true)); },
           {2, 4, 3, 3});
  table.on("InstanceNorm3d", [] { return InstanceNorm3d(2); }, {2, 2, 2, 3, 3});
  table.on("LayerNorm", [] { return LayerNorm(LayerNormOptions({6})); }, {2, 4, 6});
  table.on("GroupNorm", [] { return GroupNorm(2, 4); }, {2, 4, 5});
  table.on("LocalResponseNorm",
           [] { return LocalResponseNorm(LocalResponseNormOptions(2)); },
           {2, 4, 3, 3});
  table.on("CrossMapLRN2d", [] { return CrossMapLRN2d(3); }, {1, 4, 3, 3});
}

void add_pools(Table& table) {
  using namespace torch::nn;
  const Shape line = {2, 3, 8}, plane = {1, 3, 8, 8}, space = {1, 2, 6, 6, 6};
  table.on("AvgPool1d", [] { return AvgPool1d(AvgPool1dOptions(3).stride(2)); }, line);
  table.on("AvgPool2d", [] { return AvgPool2d(AvgPool2dOptions(3).stride(2).padding(1)); }, plane);
  table.on("AvgPool3d", [] { return AvgPool3d(AvgPool3dOptions(2)); }, space);
  table.on("MaxPool1d", [] { return MaxPool1d(MaxPool1dOptions(3).stride(2)); }, line);
  table.on("MaxPool2d", [] { return MaxPool2d(MaxPool2dOptions(3).stride(2).padding(1)); }, plane);
  table.on("MaxPool3d", [] { return MaxPool3d(MaxPool3dOptions(2)); }, space);
  table.on("AdaptiveAvgPool1d", [] { return AdaptiveAvgPool1d(3); }, line);
  table.on(
      "AdaptiveAvgPool2d",
      [] { return AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({3, 2})); },
      plane);
  table.on(
      "AdaptiveAvgPool3d",
      [] { return AdaptiveAvgPool3d(AdaptiveAvgPool3dOptions({2, 3, 2})); },
      space);
  table.on("AdaptiveMaxPool1d", [] { return AdaptiveMaxPool1d(3); }, line);
  table.on(
      "AdaptiveMaxPool2d",
      [] { return AdaptiveMaxPool2d(AdaptiveMaxPool2dOptions({3, 2})); },
      plane);
  table.on(
      "AdaptiveMaxPool3d",
      [] { return AdaptiveMaxPool3d(AdaptiveMaxPool3dOptions({2, 3, 2})); },
      space);
  table.on("LPPool1d", [] { return LPPool1d(LPPool1dOptions(2, 3)); }, line);
  table.on("LPPool2d", [] { return LPPool2d(LPPool2dOptions(2, {2, 2})); }, plane);
  table.on("LPPool3d", [] { return LPPool3d(LPPool3dOptions(2, {2, 2, 2})); }, space);
  table.on(
      "FractionalMaxPool2d",
      [] { return FractionalMaxPool2d(FractionalMaxPool2dOptions(2).output_size(3)); },
      plane);
  table.on(
      "FractionalMaxPool3d",
      [] { return FractionalMaxPool3d(FractionalMaxPool3dOptions(2).output_size(2)); },
      space);
  table.on("Upsample",
           [] {
             return Upsample(
                 UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear));
           },
           {1, 2, 3, 3});
  table.on(
      "Upsample nearest",
      [] {
        return Upsample(UpsampleOptions().size(std::vector<std::int64_t>{7}).mode(torch::kNearest));
      },
      line);
  const auto unpooled =
      [&](const std::string& name, auto make, const Shape& shape, std::int64_t cells) {
        table.cases.push_back(module_case<2>(name, make, [=] {
          // Each element comes from another cell.
          const torch::Tensor cell =
              torch::arange(normal(shape).flatten(2).size(2)).view({1, 1, -1}) * cells;
          return Tensors{normal(shape),
                         cell.expand({shape[0], shape[1], -1}).reshape(shape).contiguous()};
        }));
      };
  unpooled("MaxUnpool1d", [] { return MaxUnpool1d(2); }, {2, 3, 4}, 2);
  unpooled("MaxUnpool2d", [] { return MaxUnpool2d(2); }, {1, 2, 3, 3}, 4);
  unpooled("MaxUnpool3d", [] { return MaxUnpool3d(2); }, {1, 2, 2, 2, 2}, 8);
}

void add_networks(Table& table) {
  using namespace torch::nn;
  table.on("RNN", [] { return RNN(RNNOptions(4, 3).num_layers(2)); }, {5, 2, 4});
  table.on("LSTM", [] { return LSTM(LSTMOptions(4, 3).bidirectional(true)); }, {5, 2, 4});
  table.on("GRU", [] { return GRU(GRUOptions(4, 3).batch_first(true)); }, {2, 5, 4});
  table.on_two("RNNCell", [] { return RNNCell(4, 3); }, {2, 4}, {2, 3});
  table.on("LSTMCell", [] { return LSTMCell(4, 3); }, {2, 4});
  table.on_two("GRUCell", [] { return GRUCell(4, 3); }, {2, 4}, {2, 3});
  table.cases.push_back(module_case<3>(
      "MultiheadAttention",
      [] { return MultiheadAttention(8, 2); },
      [] {
        const torch::Tensor memory = normal({4, 2, 8});
        return Tensors{normal({3, 2, 8}), memory, memory};
      }));
  table.cases.push_back(module_case<3>(
      "MultiheadAttention of three tensors of one shape",
      [] { return MultiheadAttention(8, 2); },
      [] { return Tensors{normal({3, 2, 8}), normal({3, 2, 8}), normal({3, 2, 8})}; }));
  const auto encoder = TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1);
  const auto decoder = TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1);
  table.on("TransformerEncoderLayer", [=] { return TransformerEncoderLayer(encoder); }, {3, 2, 8});
  table.on_two("TransformerDecoderLayer",
               [=] { return TransformerDecoderLayer(decoder); },
               {3, 2, 8},
               {4, 2, 8});
  table.on(
      "TransformerEncoder",
      [=] {
        return TransformerEncoder(TransformerEncoderOptions(TransformerEncoderLayer(encoder), 2));
      },
      {3, 2, 8});
  table.on_two(
      "TransformerDecoder",
      [=] {
        return TransformerDecoder(TransformerDecoderOptions(TransformerDecoderLayer(decoder), 2));
      },
      {3, 2, 8},
      {4, 2, 8});
  table.on_two("Transformer",
               [] { return Transformer(TransformerOptions(8, 2, 1, 1).dim_feedforward(16)); },
               {3, 2, 8},
               {4, 2, 8});
  table.cases.push_back(
      {"AdaptiveLogSoftmaxWithLoss",
       [] {
         return std::make_shared<AdaptiveLogSoftmaxWithLossImpl>(
             AdaptiveLogSoftmaxWithLossOptions(16, 8, {3, 5}));
       },
       [] { return Tensors{normal({6, 16}), integers(8, {6})}; },
       [](Module& module, const Tensors& in) {
         return Tensors{
             dynamic_cast<AdaptiveLogSoftmaxWithLossImpl&>(module).forward(in[0], in[1]).output};
       },
       "data-dependent output shape"});
}

// Modules that only hold others: used inside a forward.
struct HolderImpl : torch::nn::Module {
  HolderImpl() {
    list =
        register_module("list", torch::nn::ModuleList(torch::nn::Linear(4, 4), torch::nn::Tanh()));
    named = register_module(
        "named",
        torch::nn::ModuleDict(
            std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>{
                {"norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})).ptr()}}));
    numbers =
        register_module("numbers", torch::nn::ParameterList(torch::rand({4}), torch::rand({4})));
    words = register_module("words", torch::nn::ParameterDict());
    words->insert("scale", torch::rand({4}));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = list[1]->as<torch::nn::Tanh>()->forward(list[0]->as<torch::nn::Linear>()->forward(x));
    x = named["norm"]->as<torch::nn::LayerNorm>()->forward(x);
    return x * (*numbers)[0] + (*numbers)[1] * words["scale"];
  }
  torch::nn::ModuleList list{nullptr};
  torch::nn::ModuleDict named{nullptr};
  torch::nn::ParameterList numbers{nullptr};
  torch::nn::ParameterDict words{nullptr};
};

}  // namespace

std::vector<ModuleCase> structured_modules() {
  Table table;
  add_products(table);
  add_norms(table);
  add_pools(table);
  add_networks(table);
  table.cases.push_back({"ModuleList ModuleDict ParameterList ParameterDict",
                         [] { return std::make_shared<HolderImpl>(); },
                         [] { return Tensors{normal({3, 4})}; },
                         [](torch::nn::Module& module, const Tensors& in) {
                           return Tensors{dynamic_cast<HolderImpl&>(module).forward(in[0])};
                         }});
  return table.cases;
}

}  // namespace kiln::testing
